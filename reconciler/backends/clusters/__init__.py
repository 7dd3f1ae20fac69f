"""Reads and changes one Kafka cluster: `cluster.KafkaCluster`, with one module for each kind of resource.

Belongs here: reading, changing and confirming resources of each kind. Not here: logging in (`connections`), deciding
changes (`resources`).
"""

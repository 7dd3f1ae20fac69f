"""Reads and changes one Kafka cluster: `cluster.KafkaCluster`, with one module for each kind of resource.

Belongs here: what a kind needs to be read, changed and confirmed on a cluster. Not here: how to log in
(`connections`), what
should change (`resources`).
"""

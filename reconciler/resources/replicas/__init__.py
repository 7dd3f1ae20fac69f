"""Replicas: where they are, where they should be, and moving them.

Belongs here: replication factors and assignments. Not here: partitions and configs (`resources.topics`).
"""

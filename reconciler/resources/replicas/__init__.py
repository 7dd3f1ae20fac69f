"""Replicas: present and desired placement, and reassignments.

Belongs here: replication factors and assignments. Not here: partitions and configs (`resources.topics`).
"""

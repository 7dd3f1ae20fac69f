"""Exact translation of offsets between clusters: the offset map, and counting of records in its gaps.

Belongs here: map, codec, translation, checkpoints. Not here: setting offsets of groups (`operations.failover`, the
job's `groups`).
"""

"""Offsets of one cluster in those of another, exactly: the offset map, and counting where it has gaps.

Belongs here: map, codec, translation, checkpoints. Not here: setting offsets of groups (`operations.failover`, the
job's `groups`).
"""

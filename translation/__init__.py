"""Offsets between two clusters, exactly: the offset map read over ``wire``, and counting where the map has a gap.

Used by the mirror job (checkpoints, group offsets) and by the reconciler's edges (``offsets translate``, failover).
"""

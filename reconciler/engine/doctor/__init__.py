"""Judges facts about clusters, machines and permissions: what works, what does not, what to do about it.

Belongs here: findings as values. Not here: gathering the facts (`operations.clusters.doctor`, `backends`).
"""

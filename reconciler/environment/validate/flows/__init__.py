"""Validates flows against each other: names that collide, provenance, same offsets.

Belongs here: what can be said from the files alone. Not here: what takes the clusters' answers (`resources`).
"""

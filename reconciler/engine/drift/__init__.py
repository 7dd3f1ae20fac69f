"""Why the clusters differ from git: causes, contested values, parity between clusters.

Belongs here: classifying differences that nobody planned. Not here: making them go away (`engine.plan`).
"""

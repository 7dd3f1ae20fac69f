"""Why the clusters differ from git: causes, remedies, parity between clusters.

Belongs here: classifying differences that no plan made. Not here: removing them (`engine.plan`).
"""

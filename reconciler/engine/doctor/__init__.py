"""Turns facts about clusters, machines and permissions into findings: what works, what fails, and the remedy.

Belongs here: findings as values. Not here: gathering the facts (`operations.clusters.doctor`, `backends`).
"""

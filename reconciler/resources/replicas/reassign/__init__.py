"""Moves replicas: throttled, a limited number in flight, resumable from the cluster's own state.

Belongs here: progress and throttles of reassignments. Not here: choosing brokers (`placement`).
"""

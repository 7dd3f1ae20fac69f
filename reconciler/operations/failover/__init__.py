"""`failover`, `failback` and `offsets translate`: survey both sides, decide, move consumers step by step.

Belongs here: steps, their order and their checks. Not here: translating one offset (`replication.offsets`).
"""

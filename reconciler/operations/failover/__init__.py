"""`failover`, `failback` and `offsets translate`: survey both sides, decide, move consumers step by step.

Belongs here: steps and their order. Not here: translating one offset (`replication.offsets`).
"""

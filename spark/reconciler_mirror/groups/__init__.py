"""Syncs offsets of consumer groups to the other side, in rounds, never backwards, never under active members.

Belongs here: group sync of the job. Not here: translating an offset (`reconciler.replication.offsets`).
"""

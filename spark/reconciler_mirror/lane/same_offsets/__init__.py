"""Copies a partition so that its records keep the source's offsets (``offsets: same``), without transactions on data.

Belongs here: what is appended where, how holes are filled, how the place is found again. Not here: the lane's life
(`lane.session`), what lets two programs agree on it (`reconciler.replication.offsets.same`).
"""

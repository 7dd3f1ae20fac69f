"""Copies a partition so that its records keep the source's offsets (``offsets: same``), without transactions on data.

Belongs here: appending at given offsets, filling holes, finding the place again. Not here: the life of the lane
(`lane.session`), rules that both programs share (`reconciler.replication.offsets.same`).
"""

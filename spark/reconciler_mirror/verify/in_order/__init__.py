"""Ordered partitions: both sides in step, by whole batches, by pairs of records, by records looked for ahead.

Belongs here: what is equal, what differs and where, of one partition. Not here: how a side is read, and what the report
says.
"""

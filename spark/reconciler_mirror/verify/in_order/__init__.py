"""Ordered partitions: both sides in step, by whole batches, by pairs of records, by a search ahead.

Belongs here: equal and different records of one partition. Not here: reading a side, wording of the report.
"""

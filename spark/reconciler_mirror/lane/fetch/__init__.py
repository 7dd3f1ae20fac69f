"""Fetches batches for a lane: sessions, bandwidth, open transactions, records that are filtered out.

Belongs here: the source side of a lane. Not here: the target side (`produce`).
"""

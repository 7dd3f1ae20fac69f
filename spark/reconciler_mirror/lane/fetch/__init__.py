"""Fetches batches for a lane: fetch sessions, bandwidth, open transactions, sorting of batches into pieces.

Belongs here: the source side of a lane. Not here: the target side (`produce`).
"""

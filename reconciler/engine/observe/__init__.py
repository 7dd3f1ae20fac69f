"""Reads all clusters and mirrors at once; what does not answer is unknown.

Belongs here: the order and grouping of reads. Not here: the requests (`backends.clusters`).
"""

"""Reads all clusters and mirrors in parallel; a silent one is unknown.

Belongs here: the order and grouping of reads. Not here: the requests (`backends.clusters`).
"""

"""Reads the status records that mirror jobs write to their target cluster.

Belongs here: consuming and judging the freshness of records. Not here: showing them (`render.reports`).
"""

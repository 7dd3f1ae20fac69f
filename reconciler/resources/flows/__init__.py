"""Flows: which topics they carry where, loops, provenance, and why a topic is or is not carried.

Belongs here: routes over all flows. Not here: remote topics' settings (`resources.topics`).
"""

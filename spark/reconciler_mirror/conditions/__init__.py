"""Named conditions: what can be wrong with a partition, a lane or a flow, and what to do about it.

Belongs here: each condition with its words, and their log. Not here: noticing them (`lane`, `driver`).
"""

"""Named conditions: what can be wrong with a partition, a lane or a flow, and what to do about it.

Belongs here: each condition with its text, and the log of conditions. Not here: noticing them (`lane`, `driver`).
"""

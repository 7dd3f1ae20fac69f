"""A lane: a fixed slice of a flow's partitions, copied exactly once with one transactional id.

Belongs here: start, copy, commit of a lane. Not here: which task runs it (`leases`), changing records (`record_work`).
"""

"""`cutover`: moves producers and consumers of a flow to its target by a reviewed plan, and takes that back.

Belongs here: steps, their order and their checks. Not here: moving offsets of groups (`operations.failover`).
"""

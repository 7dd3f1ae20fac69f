"""`cutover`: a reviewed plan that moves producers and consumers of a flow to its target, its steps, and their way back.

Belongs here: steps and their order, and what they look at. Not here: moving offsets of groups (`operations.failover`).
"""

"""``drill``: rehearses a failover and its way back with a canary topic and group, and reports the evidence.

Belongs here: the canary's client, and measurements. Not here: the steps of a move (`operations.cutover`).
"""

"""``drill``: the whole failover and the way back, on a canary topic and group alone, as evidence.

Belongs here: what the canary's client does, and what is measured. Not here: the steps of a move (`operations.cutover`).
"""

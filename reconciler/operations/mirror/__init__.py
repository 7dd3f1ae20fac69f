"""Commands about running mirrors and their positions: ``pause``, ``seek``, ``verify``, ``host``, waiting until one has
caught up.

Belongs here: what one of these commands does. Not here: failing over (`failover`), who runs a mirror (`session`).
"""

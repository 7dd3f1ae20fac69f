"""Commands on running mirrors and their positions: ``pause``, ``seek``, ``verify``, ``host``, and ``start
--until-caught-up``.

Belongs here: one module for each of these commands. Not here: failing over (`failover`), choosing where a mirror runs
(`session`).
"""

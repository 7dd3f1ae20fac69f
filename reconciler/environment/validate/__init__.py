"""Rules over the whole environment: every problem at once, each with file and line.

Belongs here: what flows and topics do to each other. Not here: rules of one kind (`declarations`), live clusters
(`engine.guards`).
"""

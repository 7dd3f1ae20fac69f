"""Rules over the whole environment: every problem at once, each with file and line.

Belongs here: interactions of flows and topics. Not here: rules of one kind (`declarations`), live clusters
(`engine.guards`).
"""

"""The second Spark application: compares records of source and target while the mirror runs.

Belongs here: reading and comparing both sides; it writes nothing. Not here: the command
(`reconciler.operations.mirror.foreground`).
"""

"""Kafka topology of several clusters, declared in git, compared with the live clusters, applied as one plan.

Belongs here: errors and text that every package uses. Not here: anything that imports another package; importing it
must cost nothing, since executors of the mirror job carry it too.
"""

"""Kafka topology of several clusters, declared in git, compared with the live clusters, applied as one plan."""

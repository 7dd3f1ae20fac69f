"""Kafka topology of several clusters, declared in git, compared with the live clusters, applied as one plan."""

__version__ = "0.1.0"

"""Kafka clients of the two applications: our own connections, and librdkafka for ``verify`` to compare by.

Belongs here: making clients from the hand-over. Not here: using them (`lane`, `verify`).
"""

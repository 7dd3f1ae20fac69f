"""Kafka clients of the job: librdkafka for admin work, our own connections for copying.

Belongs here: making clients from the hand-over. Not here: what is done with them.
"""

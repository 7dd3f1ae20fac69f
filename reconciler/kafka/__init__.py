"""Kafka's protocol on plain sockets, as far as this project needs it. Knows nothing else of ours.

Belongs here: connections, requests, record batches. Not here: their use (`backends.clusters`, the mirror job).
"""

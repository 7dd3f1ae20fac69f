"""Requests and responses of Kafka's protocol, one module for each family, with their versions.

Belongs here: bytes of a request and its response. Not here: sending it (`client`), record batches (`records`).
"""

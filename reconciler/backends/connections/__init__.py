"""Connects to clusters: credentials, dialling, retries, and the wording of errors.

Belongs here: all that comes before a request. Not here: requests of a kind (`clusters`), the protocol (`kafka`).
"""

"""Logging in to a cluster: credentials, dialling, retries, and one wording for errors.

Belongs here: what every request needs before it is sent. Not here: the requests of a kind (`clusters`), the protocol
(`kafka`).
"""

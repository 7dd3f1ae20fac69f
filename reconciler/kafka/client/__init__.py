"""Connections to brokers, and the conversations that take several requests: metadata, groups, transactions.

Belongs here: state of a connection and routing to leaders. Not here: bytes of one request (`protocol`), login (`auth`).
"""

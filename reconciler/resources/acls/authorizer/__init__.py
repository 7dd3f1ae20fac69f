"""Kafka's StandardAuthorizer offline: gains and losses of access by a plan, and lock-outs of our own principals.

Belongs here: deciding from ACLs. Not here: asking a broker (`backends.clusters.permissions`).
"""

"""Kafka's StandardAuthorizer offline: who gains and loses access by a plan, and whether we lock ourselves out.

Belongs here: deciding from ACLs. Not here: asking a broker (`backends.clusters.permissions`).
"""

"""SCRAM users: desired against live, explained, and which of them are our own logins.

Belongs here: rules of users. Not here: YAML (`environment`), requests (`backends.clusters.users`).
"""

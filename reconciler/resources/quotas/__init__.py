"""Client quotas: desired against live, and explained.

Belongs here: rules of quotas. Not here: YAML (`environment`), requests (`backends.clusters.acls_and_quotas`).
"""

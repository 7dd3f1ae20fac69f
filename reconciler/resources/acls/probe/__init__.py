"""Probes each batch of ACL changes: rules on brokers, their effect, and rights of our own principals.

Belongs here: judging a batch (rules of one stage on one cluster, at most a thousand), and undoing a failed one.
Not here: changes and their order (`resources.acls.kind`).
"""

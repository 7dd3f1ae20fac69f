"""``apply`` once, or again and again as ``run`` does: a plan carried out under the lock, with probes after ACL changes,
an audit record, and a record of what is left.

Belongs here: what changes clusters in the order of a plan. Not here: making a plan (`review`).
"""

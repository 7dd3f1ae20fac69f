"""``apply`` carries out one plan, ``run`` one after the other: under the lock, with probes after ACL changes, an audit
record, and a record of each cluster as the apply left it.

Belongs here: changing clusters in the order of a plan. Not here: making a plan (`review`).
"""

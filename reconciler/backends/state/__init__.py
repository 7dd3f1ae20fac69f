"""State of the reconciler in Kafka and on disk: lock, last apply, rollout progress, reassignments, audit log.

Belongs here: compacted records, compare-and-set, the lock, and their readers. Not here: the values themselves
(`model.state`), contents of audit lines (`operations.apply.audit`).
"""

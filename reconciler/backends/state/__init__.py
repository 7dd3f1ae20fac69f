"""What the reconciler remembers in Kafka and on disk: the lock, last apply, rollout progress, reassignments, audit log.

Belongs here: compacted records, compare-and-set, the lock, and their readers. Not here: the values themselves
(`model.state`), what a line of the audit log says (`engine.apply.audit_lines`).
"""

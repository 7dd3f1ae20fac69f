"""What the reconciler remembers in Kafka and on disk: last apply, rollout progress, reassignments.

Belongs here: compacted records, compare-and-set, and their readers. Not here: the values themselves (`model.state`).
"""

"""Values that the reconciler remembers between runs: last apply, lock, progress of a rollout.

Belongs here: the values and their JSON. Not here: where they are kept (`backends.state`).
"""

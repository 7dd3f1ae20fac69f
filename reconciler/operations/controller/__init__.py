"""``run``: plan and apply again and again, and rollouts over several environments.

Belongs here: what happens in one round, and what a rollout sees. Not here: one apply (`apply`), its page (`serve`).
"""

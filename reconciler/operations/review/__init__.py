"""Plans and what a reviewer sees of them: ``plan``, ``compare``, ``drift`` and ``map``.

Belongs here: how a plan is made and what is said about it. Not here: carrying it out (`apply`).
"""

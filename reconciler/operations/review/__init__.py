"""Plans and their views for a reviewer: ``plan``, ``compare``, ``drift`` and ``map``.

Belongs here: making a plan and its reviews. Not here: carrying it out (`apply`).
"""

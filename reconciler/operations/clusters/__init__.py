"""Commands that look at clusters and change nothing: ``doctor``, ``sizing``, ``map``, ``audit verify``.

Belongs here: what such a command reads and how it puts it together. Not here: plans (`review`), mirrors (`mirror`).
"""

"""Commands that look at clusters and change nothing: ``status``, ``doctor``, ``sizing``, ``audit verify``.

Belongs here: what such a command reads and how it puts it together. Not here: plans (`review`), mirrors (`mirror`).
"""

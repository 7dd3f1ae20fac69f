"""Commands that read clusters and change nothing: ``status``, ``doctor``, ``sizing``, ``audit verify``.

Belongs here: reads of such a command, put together into one report. Not here: plans (`review`), mirrors (`mirror`).
"""

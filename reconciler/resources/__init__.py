"""Rules of each kind of resource: desired against live, explained, protected. No I/O.

Belongs here: one folder for each kind. Not here: what concerns all kinds (`engine`), values (`model`).
"""

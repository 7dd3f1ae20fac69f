"""Rules of each kind of resource: desired against live, explained, protected. No I/O.

Belongs here: one folder for each kind. Not here: rules across kinds (`engine`), values (`model`).
"""

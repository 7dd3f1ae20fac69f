"""Writes YAML from what other tools left: MirrorMaker 2's configuration and its positions.

Belongs here: one folder for each source. Not here: live clusters (`adopt`).
"""

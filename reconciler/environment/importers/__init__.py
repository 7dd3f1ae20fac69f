"""Writes YAML from other tools' data: MirrorMaker 2's configuration and positions.

Belongs here: one folder for each source. Not here: live clusters (`adopt`).
"""

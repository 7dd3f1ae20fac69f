"""`import` and `mirror import-positions`: files from MirrorMaker 2's configuration, and its last positions.

Belongs here: reading, writing, reporting. Not here: what a setting or a position becomes (`environment.importers`).
"""

"""`import` and `mirror import-positions`: files from what MirrorMaker 2 was told, and positions from where it stood.

Belongs here: reading, writing, reporting. Not here: what a setting or a position becomes (`environment.importers`).
"""

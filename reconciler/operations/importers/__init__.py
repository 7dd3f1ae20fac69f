"""`import`, `takeover` and `mirror import-positions`: take over MirrorMaker 2's configuration and positions.

Belongs here: reading, writing, reporting. Not here: translating settings and positions (`environment.importers`).
"""

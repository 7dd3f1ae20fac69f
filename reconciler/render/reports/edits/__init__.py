"""Reports of edits: what an edit means, and what one environment lacks to be as another.

Belongs here: their words in every format. Not here: what is compared, and how (`engine.edits`).
"""

"""Records that the two programs and their processes keep in small compacted topics: read, followed, appended, swapped.

Belongs here: the one reader and writer of such topics, and pauses. Not here: what other records say (`model.state`,
`runs`).
"""

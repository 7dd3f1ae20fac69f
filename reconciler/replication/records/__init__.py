"""Reads, follows, appends and swaps records of both programs in small compacted topics.

Belongs here: the only reader and writer of such topics, and pauses. Not here: contents of other records (`model.state`,
`runs`).
"""

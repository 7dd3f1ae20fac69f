"""The session that commands share: an environment's open clusters, early reads, and runners of its mirrors.

Belongs here: opening and closing connections, and shared reads. Not here: single commands (the folders beside this
one).
"""

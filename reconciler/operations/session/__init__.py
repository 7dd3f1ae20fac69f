"""What the commands share: open clusters, early reads, the lock around a run, probing after ACL changes.

Belongs here: connections of a run and their end, and what only looks. Not here: what one command changes (the folder
above).
"""

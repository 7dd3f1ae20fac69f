"""Topics and their configs on a cluster: read in bulk, created, altered, and confirmed on every broker.

Belongs here: requests about topics, in batches. Not here: other kinds, which have a module in the folder above.
"""

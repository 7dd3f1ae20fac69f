"""What the commands share: one environment's open clusters, early reads, and its mirrors' jobs elsewhere.

Belongs here: connections of a command and their end, and what only looks. Not here: what one command does (the folders
beside this one).
"""

"""A YARN cluster of this machine for tests: its daemons, and the list of the jars they are of.

Belongs here: what starts, kills and asks ResourceManager and NodeManagers. Not here: what is run on them.
"""

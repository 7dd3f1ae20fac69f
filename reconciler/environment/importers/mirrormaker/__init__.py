"""MirrorMaker 2's configuration as an environment: properties files, connectors, Strimzi's resource.

Belongs here: what each of its settings becomes, and what is reported about the others. Not here: its positions
(`positions`).
"""

"""MirrorMaker 2's configuration as an environment: properties files, connectors, Strimzi's resource.

Belongs here: translating its settings, and reporting all others. Not here: its positions (`positions`).
"""

"""Takes positions of a MirrorMaker 2 over into the `start` of a flow: parses, judges and writes them into its YAML.

Belongs here: translating stored positions. Not here: reading them from Connect (`backends.clusters.mirrormaker`).
"""

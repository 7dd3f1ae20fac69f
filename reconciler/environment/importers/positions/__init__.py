"""Positions of a MirrorMaker 2 taken over into the `start` of a flow: read, judged, written into its YAML.

Belongs here: what a stored position becomes. Not here: reading them from Connect (`backends.clusters.mirrormaker`).
"""

"""Builds the environment's values from YAML entries, by kind, collecting every problem with its line.

Belongs here: one entry to one value. Not here: rules over several entries (`validate`), YAML syntax (`yaml`).
"""

"""Declarations of an environment, one module for each kind: YAML entries to values, and rules across entries.

Belongs here: one kind, with every problem's line. Not here: rules over all flows (`validate`), YAML syntax (`yaml`).
"""

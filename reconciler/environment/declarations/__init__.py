"""What an environment declares, a module for each kind: from its YAML entry to a value, and rules across entries.

Belongs here: one kind, with every problem's line. Not here: rules over all flows (`validate`), YAML syntax (`yaml`).
"""

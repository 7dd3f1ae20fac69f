"""YAML text to nodes with line numbers, checked against the JSON schema.

Belongs here: syntax, locations, shape. Not here: meaning (`declarations`).
"""

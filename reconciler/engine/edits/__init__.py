"""The meaning of an edit of the YAML: compares two environments field by field, with the risk of each difference.

Belongs here: git against git. Not here: git against clusters (`engine.diff`, `resources`).
"""

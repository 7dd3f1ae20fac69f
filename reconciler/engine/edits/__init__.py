"""What an edit of the YAML means: two environments compared, field by field, with the risk of each difference.

Belongs here: git against git. Not here: git against clusters (`engine.diff`, `resources`).
"""

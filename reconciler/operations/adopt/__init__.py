"""Writes YAML files from live clusters: from one cluster (``adopt``), or a whole first environment (``init``).

Belongs here: reading, writing, proving, and the questions of ``init``. Not here: choosing what to declare of a cluster
and rendering it as YAML (``environment.adopt``).
"""

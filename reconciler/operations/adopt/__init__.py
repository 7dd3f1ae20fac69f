"""Files from live clusters: one cluster (``adopt``), or a whole first environment (``init``).

Belongs here: reading, writing, proving, and the questions of ``init``. Not here: what is declared of a cluster and how
it is written (``environment.adopt``).
"""

"""The mirror job: a PySpark application that copies records between clusters. Importing it does nothing.

Belongs here: what runs inside Spark. Not here: starting it (`reconciler.backends.mirror_jobs`), what both agree on
(`reconciler.replication`).
"""

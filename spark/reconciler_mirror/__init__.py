"""The mirror job: a PySpark application that copies records between clusters. Importing it does nothing.

Belongs here: code that runs inside Spark. Not here: starting it (`reconciler.backends.mirror_jobs`), the contract
between both programs (`reconciler.replication`).
"""

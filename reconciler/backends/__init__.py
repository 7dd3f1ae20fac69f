"""Everything that touches the world: Kafka, Spark, git, files, secrets.

Belongs here: implementations of the ports in `model.ports`, one folder for each system. Not here: decisions, which are
functions of values in `engine` and `resources`.
"""

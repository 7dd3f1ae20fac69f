"""Everything that touches the world: Kafka, Spark, git, files, secrets.

Belongs here: implementations of the ports in `model.ports`, one folder for each system. Not here: decisions; what to do
follows from values in `engine` and `resources`.
"""

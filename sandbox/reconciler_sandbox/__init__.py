"""Real Kafka clusters on one machine, for the first command, the tests and the benchmarks.

Belongs here: profiles of clusters and their commands. Not here: anything that a production cluster needs.
"""

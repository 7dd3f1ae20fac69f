"""Real Kafka clusters on one machine, for the first command, the tests and the benchmarks.

Starts brokers from Maven's jars, hands out ``Sandbox`` handles and cleans up. Knows nothing of topologies or mirrors.
"""

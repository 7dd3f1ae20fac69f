"""Proof that source and target of a flow hold the same records, while the mirror runs. Reads only, writes nothing.

Reads with confluent-kafka and shares no record code with the copy, so that a fault there cannot hide itself here.
"""

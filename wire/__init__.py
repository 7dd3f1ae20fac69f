"""Kafka's protocol on plain sockets, as far as a mirror needs it: whole record batches in, whole record batches out.

Control requests use kafka-python's generated codec (``protocol``); Fetch and Produce are packed by hand. Nothing here
knows flows, lanes or Spark.
"""

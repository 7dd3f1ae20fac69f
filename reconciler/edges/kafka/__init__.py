"""The only room that speaks to Kafka for the reconciler: ``admin.KafkaCluster``, and what it is made of. Knows nouns
and ports, no doings. Nothing is imported here: reads that begin early wait for no part that they do not need."""

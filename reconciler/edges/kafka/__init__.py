"""The only room that speaks to Kafka for the reconciler. Knows nouns and ports, no doings."""

from reconciler.edges.kafka.admin import KafkaCluster

__all__ = ["KafkaCluster"]

"""Bytes on the disks of brokers: a missing right never reads as no bytes."""

from __future__ import annotations

from types import SimpleNamespace

from reconciler.kafka.protocol.log_dirs import CLUSTER_AUTHORIZATION_FAILED, refusal


def test_an_answer_without_a_folder_is_a_refusal_of_an_older_broker() -> None:
    """Kafka 2.8 answers so to a principal without Describe on the cluster; it was taken for zero bytes."""
    folder = SimpleNamespace(error_code=0, topics=[])
    assert refusal(SimpleNamespace(results=[])) == CLUSTER_AUTHORIZATION_FAILED
    assert refusal(SimpleNamespace(results=[], error_code=0)) == CLUSTER_AUTHORIZATION_FAILED
    assert refusal(SimpleNamespace(results=[], error_code=58)) == 58
    assert refusal(SimpleNamespace(results=[folder])) == 0
    assert refusal(SimpleNamespace(results=[folder], error_code=None)) == 0

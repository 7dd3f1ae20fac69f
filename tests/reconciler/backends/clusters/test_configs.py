"""Configs of a topic are altered key by key, also where brokers only offer AlterConfigs. Real: every sandbox."""

from __future__ import annotations

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters import configs
from reconciler.backends.clusters.configs import ConfigEdit, alter_configs
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections.requests import Requests
from reconciler.kafka.protocol.generated import IncrementalAlterConfigsRequest
from reconciler.model.environment.topology import Principal
from tests.support.clusters import CreateTopic, real_cluster

pytestmark = pytest.mark.kafka
THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize("incremental", [True, False])
def test_what_is_not_named_stays(
    plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch, incremental: bool
) -> None:
    east = plain.clusters["east"]
    topic = create_topic(east, unique, retention_ms="60000", segment_ms="70000")
    key, missing = (configs.TOPIC, topic), (configs.TOPIC, f"{unique}.missing")
    offered = Requests.versions
    if not incremental:
        kept = IncrementalAlterConfigsRequest.API_KEY
        monkeypatch.setattr(Requests, "versions", lambda self: {k: v for k, v in offered(self).items() if k != kept})
    with Requests(real_cluster(east), Principal.APPLY) as requests:

        def overrides() -> dict[str, str]:
            return dict(read_cluster(requests, [topic]).topics[topic].overrides)

        set_one = ConfigEdit("retention.ms", configs.SET, "90000")
        answers = alter_configs(requests, {key: [set_one], missing: [set_one]}, validate_only=True)
        assert answers[key] is None
        assert (told := answers[missing]) is not None
        assert told.kind == "missing"
        assert overrides() == {"retention.ms": "60000", "segment.ms": "70000"}, "it was only validated"
        for operation, value in ((configs.SET, "0:1"), (configs.APPEND, "0:2"), (configs.SUBTRACT, "0:1")):
            assert alter_configs(requests, {key: [ConfigEdit(THROTTLED, operation, value)]}) == {key: None}
        remove = ConfigEdit("segment.ms", configs.DELETE, None)
        assert alter_configs(requests, {key: [set_one, remove], missing: [remove]})[key] is None
        assert overrides() == {"retention.ms": "90000", THROTTLED: "0:2"}
        refused = alter_configs(requests, {key: [ConfigEdit("retention.ms", configs.SET, "soon")]})[key]
        assert refused is not None
        assert refused.kind == "invalid"
        assert overrides() == {"retention.ms": "90000", THROTTLED: "0:2"}

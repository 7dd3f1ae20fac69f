"""Configs of a topic are altered key by key, also where brokers only offer AlterConfigs. Real: every sandbox."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters import configs
from reconciler.backends.clusters.configs import ConfigEdit, alter_configs
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections.requests import Requests
from reconciler.kafka.protocol.generated import IncrementalAlterConfigsRequest
from reconciler.model.environment.topology import Principal
from tests.support.clusters import CreateTopic, real_cluster
from tests.support.waiting import until

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

        def alter(edits: Mapping[configs.Key, list[ConfigEdit]], shown: dict[str, str]) -> None:
            """The controller answers before brokers show the change, from which AlterConfigs takes what it keeps."""
            assert alter_configs(requests, edits)[key] is None
            until(lambda: overrides() == shown)

        set_one = ConfigEdit("retention.ms", configs.SET, "90000")
        answers = alter_configs(requests, {key: [set_one], missing: [set_one]}, validate_only=True)
        assert answers[key] is None
        assert (told := answers[missing]) is not None
        assert told.kind == "missing"
        created = {"retention.ms": "60000", "segment.ms": "70000"}
        assert overrides() == created, "it was only validated"
        for operation, value, shown in (
            (configs.SET, "0:1", "0:1"),
            (configs.APPEND, "0:2", "0:1,0:2"),
            (configs.SUBTRACT, "0:1", "0:2"),
        ):
            alter({key: [ConfigEdit(THROTTLED, operation, value)]}, created | {THROTTLED: shown})
        remove = ConfigEdit("segment.ms", configs.DELETE, None)
        alter({key: [set_one, remove], missing: [remove]}, {"retention.ms": "90000", THROTTLED: "0:2"})
        refused = alter_configs(requests, {key: [ConfigEdit("retention.ms", configs.SET, "soon")]})[key]
        assert refused is not None
        assert refused.kind == "invalid"
        assert overrides() == {"retention.ms": "90000", THROTTLED: "0:2"}

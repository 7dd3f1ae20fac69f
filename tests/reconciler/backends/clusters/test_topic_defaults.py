"""What a broker says of topics without values of their own is what such a topic shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters import cluster as backend
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal
from reconciler.model.live import SHOWN_BY_ALL, Source, usual_configs
from tests.support.clusters import CreateTopic, real_cluster


def test_a_broker_of_a_fresh_cluster_shows_the_defaults_of_topics(
    plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    east = plain["east"]
    create_topic(east, unique)
    with backend.KafkaCluster(real_cluster(east), Principal.PLAN) as admin:
        seen = admin.read()
        assert seen.defaults == {}, "a topic shows them: no further request"
        monkeypatch.setattr(backend, "read_cluster", lambda *_: replace(seen, topics={}))
        fresh = admin.read()
    assert not isinstance(fresh.defaults, Unknown)
    assert fresh.defaults.keys() >= SHOWN_BY_ALL
    shown = seen.topics[unique].configs
    assert not isinstance(shown, Unknown)
    own = {key: value.value for key, value in shown.items() if value.source is not Source.TOPIC}
    told = {key: value.value for key, value in usual_configs(fresh).items()}
    assert {key: own[key] for key in told if key in own} == {key: told[key] for key in told if key in own}
    assert own.keys() & told.keys() >= SHOWN_BY_ALL

"""A topic ``heartbeats`` that is there keeps its settings, as with MirrorMaker 2, and one apply is enough."""

from __future__ import annotations

import pytest

from reconciler.errors import ExitCode
from reconciler.model.changes import AlterConfigs
from reconciler.model.environment.flow_settings import MirrorMakerTopics
from reconciler.render.plan.text import plan_text
from tests.support.builders import World, flow, topology, world

WISHED = topology(flow("east", "west", "orders", mirrormaker_topics=MirrorMakerTopics(heartbeats=1_000)))


def with_heartbeats(cluster: str, partitions: int = 1, **configs: str) -> World:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters[cluster].put("heartbeats", partitions, 1, **configs)
    return seen


@pytest.mark.parametrize("cluster", ["east", "west"])
@pytest.mark.parametrize("configs", [{}, {"cleanup_policy": "delete"}, {"cleanup_policy": "compact"}])
@pytest.mark.parametrize("partitions", [1, 2])
def test_one_that_is_there_keeps_its_settings_and_the_second_plan_is_empty(
    cluster: str, configs: dict[str, str], partitions: int
) -> None:
    seen = with_heartbeats(cluster, partitions, **configs)
    before = dict(seen.clusters[cluster].topics["heartbeats"].overrides)
    planned = seen.plan(WISHED)
    assert not any(isinstance(one.change, AlterConfigs) for one in planned.changes), plan_text(planned)
    seen.apply(WISHED)
    assert dict(seen.clusters[cluster].topics["heartbeats"].overrides) == before
    again = seen.plan(WISHED)
    assert again.exit_code is ExitCode.DONE, plan_text(again)
    assert partitions > 1 or "heartbeats" not in plan_text(again), "nothing to say of it on every plan"


def test_new_ones_are_compacted_and_so_is_the_copy() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.apply(WISHED)
    made = [seen.clusters["east"].topics["heartbeats"]]
    made += [seen.clusters["west"].topics[name] for name in ("heartbeats", "east.heartbeats")]
    assert [topic.overrides for topic in made] == [{"cleanup.policy": "compact"}] * 3
    assert seen.plan(WISHED).exit_code is ExitCode.DONE

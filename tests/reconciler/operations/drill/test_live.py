"""What a drill asks clusters to change names its canary, its group, and nothing else, whatever else is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.backends.clusters.groups import PartitionBounds, Side
from reconciler.environment.load import load
from reconciler.errors import BlockedError
from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import AclBinding
from reconciler.model.reports.cutover import CutoverPlan, CutoverSettings, FenceChosen, TopicSeen
from reconciler.model.reports.drill import DrillPlaces
from reconciler.model.reports.failover import GroupMove, GroupOffset, GroupState, Key, TranslatedPartition
from reconciler.model.state.cutover_journal import CutoverJournal
from reconciler.operations.drill import live
from reconciler.operations.drill.decide import exactly_name, places_of, require_alone, require_declared
from reconciler.operations.drill.live import DRILL, LiveDrill
from reconciler.operations.failover.fence import Fence
from reconciler.operations.failover.survey import Survey
from reconciler.operations.mirror import pause as steering
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.resources.acls.derive_from_flows import denial

CANARY = "drill.e2w"
OURS = {CANARY, f"east.{CANARY}", f"west.{CANARY}"}
TOPICS = {**dict.fromkeys(OURS, 2), "orders": 3, "east.orders": 3, "drill.e2w-not": 1}
YAML = r"""
clusters:
  east: {bootstrap_servers: ["east:9092"]}
  west: {bootstrap_servers: ["west:9092"]}
topics:
  drill.e2w: {clusters: [east, west], partitions: 2, replication_factor: 1}
flows:
  e2w: {source: east, target: west, topics: [orders, 'drill\.e2w']}
  w2e: {source: west, target: east, topics: ['drill\.e2w']}
mirrors: {west: {}, east: {}}
"""


def topology(text: str = YAML) -> Topology:
    return load({"env.yaml": text}, "prod")


def moves(*topics: str) -> tuple[GroupMove, ...]:
    state = GroupState("classic", "Empty", 0)
    offsets = tuple(
        GroupOffset((name, 0), (f"copy.{name}", 0), 3, "", TranslatedPartition(3, True), 1) for name in topics
    )
    return tuple(GroupMove(group, state, state, offsets) for group in ("billing", CANARY, f"{CANARY}-not"))


class Changes:
    """Names of topics and groups that were asked to be changed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        patch.setattr(Side, "partitions", lambda _: TOPICS)
        patch.setattr(Side, "bounds", lambda _, keys: {key: PartitionBounds(0, 9, 9) for key in keys})
        patch.setattr(Side, "commit", lambda _, wanted, *__: self._commit(wanted))
        patch.setattr(Survey, "groups", lambda _: (moves(*TOPICS), {}))
        patch.setattr(Survey, "exact_groups", lambda _: moves(*TOPICS))
        patch.setattr(Fence, "put", lambda _, rules, __: self._rules(rules))
        patch.setattr(Fence, "strike", lambda _, rules: self._rules(rules))
        others = {Scope("e2w", "orders"), Scope("e2w", CANARY, 0), Scope("e2w", CANARY)}
        self.pauses = {each: Pause(each, 1, "ann", f"{DRILL}west") for each in others}
        patch.setattr(steering, "pauses_of", lambda *_: self.pauses)
        patch.setattr(steering, "hold", lambda _, scopes, *why: self._scopes(scopes, *why[:1]))
        patch.setattr(steering, "lift", lambda _, scopes, *__: self._scopes(scopes))
        patch.setattr(live, "visited", _visited)
        patch.setattr(small_topics, "append", self._append)

    def _commit(self, wanted: Mapping[str, Mapping[Key, CommittedPosition]]) -> Mapping[str, Mapping[Key, str]]:
        self.groups |= wanted.keys()
        self.topics |= {key[0].removeprefix("copy.") for offsets in wanted.values() for key in offsets}
        return {}

    def _rules(self, rules: Collection[AclBinding]) -> None:
        self.topics |= {rule.name for rule in rules}

    def _scopes(self, scopes: Sequence[Scope], reason: str = DRILL) -> list[str]:
        assert reason.startswith(DRILL), "the next drill would not lift it"
        assert all(scope.topic for scope in scopes), "a flow as a whole"
        self.topics |= {scope.topic for scope in scopes}
        return []

    async def _append(self, _: object, topic: str, records: Mapping[int, object]) -> None:
        assert records
        self.topics.add(topic)


def _visited(_: object, ask: Callable[[Sequence[object]], Awaitable[object]], __: float = 0) -> object:
    async def run() -> object:
        return await ask([object(), object()])

    return asyncio.run(run())


def test_a_drill_changes_its_canary_and_its_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    changes, declared = Changes(monkeypatch), topology()
    seen = TopicSeen(CANARY, f"east.{CANARY}", "id", 2, 0, 0.0, 0.0)
    fence = FenceChosen(frozenset({denial(CANARY)}))
    plan = CutoverPlan(
        "prod", "e2w", "east", "west", exactly_name(CANARY), exactly_name(CANARY), CutoverSettings(), 0, {}, "",
        (seen,), (), {}, fence, "", (), (), None,
    )  # fmt: skip
    places = places_of(declared, declared.flows["e2w"], CANARY, ["w2e"], TOPICS)
    assert places == DrillPlaces(CANARY, f"east.{CANARY}", CANARY, f"west.{CANARY}", "w2e")
    session: Any = SimpleNamespace(topology=declared, visits=None)
    made = {denial(CANARY), denial("orders")}
    monkeypatch.setattr(Fence, "rules", lambda _: frozenset(made))
    monkeypatch.setattr(Fence, "made", lambda _: frozenset(made))
    kept: Any = SimpleNamespace(require_lock=lambda: None)
    world = LiveDrill(session, plan, kept, lambda _: None, places, CANARY)
    world.to_ends()
    world.write([0, 1, 2], there=False)
    world.write([3, 4], there=True)
    world.fence(plan.fence.rules)
    world.unfence(world.rules()[1])
    world.resume()
    changes.pauses = {}
    world.pause()
    assert all(move.group == CANARY for move in world.commit(world.groups(settled=True)))
    world.groups_back()
    assert world.hook("before") is None, "no hook of the environment runs"
    assert changes.groups == {CANARY}
    assert changes.topics == OURS


def test_a_pause_that_a_drill_did_not_set_stops_it() -> None:
    declared = topology()
    flow = declared.flows["e2w"]
    mine = {Scope("e2w", CANARY): Pause(Scope("e2w", CANARY), 1, "ann", f"{DRILL}west")}
    require_alone(declared, flow, CANARY, mine, (), DRILL)
    require_alone(
        declared, flow, CANARY, {Scope("e2w", "orders"): Pause(Scope("e2w", "orders"), 1, "ann", "")}, (), DRILL
    )
    for scope, reason in ((Scope("e2w"), f"{DRILL}west"), (Scope("e2w", CANARY), "maintenance"), (Scope("e2w"), "")):
        with pytest.raises(BlockedError, match="is paused since"):
            require_alone(declared, flow, CANARY, {scope: Pause(scope, 1, "ann", reason)}, (), DRILL)


@pytest.mark.parametrize(("name", "topics"), [("w2e", ("other",)), ("e2w", ("orders",)), ("gone", (CANARY,))])
def test_a_cut_over_that_is_under_way_stops_it(name: str, topics: tuple[str, ...]) -> None:
    declared = topology()
    journal = CutoverJournal("prod", name, "digest", "east", topics, "bob", 1)
    with pytest.raises(BlockedError, match=f"a cut-over of {name} by bob is under way"):
        require_alone(declared, declared.flows["e2w"], CANARY, {}, [journal], DRILL)


def test_a_canary_that_is_not_declared_is_refused_with_the_lines_to_add() -> None:
    text = YAML.replace("  drill.e2w: {", "  other: {").replace(r"topics: [orders, 'drill\.e2w']", "topics: [orders]")
    declared = topology(text)
    with pytest.raises(BlockedError) as refused:
        require_declared(declared, declared.flows["e2w"], CANARY)
    lines = refused.value.todo.splitlines()[1:]
    assert lines == [
        "topics:", "  drill.e2w: {clusters: [east, west]}", "flows:", "  e2w:", r"    topics: ['orders', 'drill\.e2w']",
    ]  # fmt: skip
    kept = text.replace("  other: {clusters", "  drill.e2w: {clusters").replace(
        "topics: [orders]}", r"topics: [orders, 'drill\.e2w'], groups: {exclude: ['drill.*']}}"
    )
    with pytest.raises(BlockedError, match=r"does not move the group drill\.e2w"):
        require_declared(topology(kept), topology(kept).flows["e2w"], CANARY)


@pytest.mark.parametrize(
    ("standing", "there", "written", "words"),
    [
        ([], {CANARY}, CANARY, "w2e, which would carry drill.e2w back, does not copy"),
        (["w2e"], set(), "", "west has no topic drill.e2w, which w2e would carry back"),
    ],
)
def test_where_nothing_leads_back_the_copy_is_not_written(
    standing: list[str], there: set[str], written: str, words: str
) -> None:
    declared = topology()
    places = places_of(declared, declared.flows["e2w"], CANARY, standing, there)
    assert (places.written, places.back) == (written, "")
    assert places.note.startswith(words)
    same = topology(
        YAML.replace("'drill\\.e2w']}\n  w2e", "'drill\\.e2w'], naming: {policy: identity}}\n  w2e")
        .replace("  w2e: {source: west, target: east, topics: ['drill\\.e2w']}\n", "")
        .replace("east: {}}", "}")
    )
    assert places_of(same, same.flows["e2w"], CANARY, [], {CANARY}).written == ""

"""Nothing is deleted without a tombstone, and a tombstone deletes one topic only: the one with its name and id."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.plan.build import plan
from reconciler.engine.plan.select import known_part, unexpired
from reconciler.environment.load import load
from reconciler.errors import ExitCode, TopologyError
from reconciler.model.changes import DeleteTopic
from reconciler.model.environment.topology import Tombstone, Topology
from reconciler.model.plan import Result
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.drift import drift_text
from reconciler.resources.protected_names import is_protected
from tests.support.builders import World, codes, flow, ids, topic, topology, world
from tests.support.fakes.cluster import unreachable
from tests.support.worlds import CLUSTERS, LiveParts, live_parts, topologies

ID = "AbCdEfGhIjKlMnOpQrStUv"
EAST = "clusters:\n  east: {bootstrap_servers: [east:9092]}\n"
TODAY = date(2026, 1, 15)


def stone(cluster: str, name: str, topic_id: str = ID) -> Tombstone:
    return Tombstone(cluster, name, topic_id, "moved to billing", "2099-12-31")


def buried(wished: Topology, *stones: Tombstone) -> Topology:
    return replace(wished, deletions=stones)


def entry(**fields: str) -> str:
    all_fields = {"topic": "old", "cluster": "east", "topic_id": ID, "reason": "moved", "expires": "2026-01-31"}
    return "{" + ", ".join(f"{key}: {value}" for key, value in {**all_fields, **fields}.items()) + "}"


def problems(text: str) -> list[tuple[str, int]]:
    with pytest.raises(TopologyError) as caught:
        load({"a.yaml": EAST + text}, "e", TODAY)
    return [(one.code, one.where.line) for one in caught.value.problems]


def test_tombstones_of_all_files_are_read() -> None:
    texts = {"a.yaml": EAST + f"deletions: [{entry()}]\n", "b.yaml": f"deletions:\n  - {entry(topic='older')}\n"}
    found = load(texts, "e", TODAY).deletions
    assert [(str(one.ref), one.topic_id, one.expires) for one in found] == [
        ("east/old", ID, "2026-01-31"),
        ("east/older", ID, "2026-01-31"),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"deletions:\n  - {entry()}\n  - {entry()}\n", [("duplicate-name", 5)]),
        (f"deletions:\n  - {entry(cluster='eats')}\n", [("unknown-cluster", 4)]),
        (f"deletions:\n  - {entry(expires='2026-01-14')}\n", [("tombstone-expired", 4)]),
        (f"deletions:\n  - {entry(expires='2026-02-30')}\n", [("bad-date", 4)]),
        (f"deletions:\n  - {entry(expires='soon')}\n", [("bad-value", 4)]),
        (f"deletions:\n  - {entry(topic_id='abc')}\n", [("bad-value", 4)]),
        (f"deletions:\n  - {entry(topic='__consumer_offsets')}\n", [("tombstone-protected", 4)]),
        (f"deletions:\n  - {entry()}\ntopics: {{old: {{clusters: [east]}}}}\n", [("tombstone-for-declared", 4)]),
        ("deletions:\n  - {topic: old, cluster: east}\n", [("missing-field", 4)] * 3),
        ("deletions:\n  - old\n", [("wrong-type", 4)]),
        ("deletions: {old: east}\n", [("wrong-type", 3)]),
        (f"deletions:\n  - {entry(force='now')}\n", [("unknown-field", 4)]),
    ],
)
def test_a_wrong_tombstone_is_reported_with_its_line(text: str, found: list[tuple[str, int]]) -> None:
    assert problems(text) == found


@pytest.mark.parametrize(("expression", "code"), [("[", "bad-regex"), ("(?:a?){3000}b", "regex-costly")])
def test_a_tombstone_is_not_matched_with_a_protection_that_is_refused(expression: str, code: str) -> None:
    text = f"protected: ['{expression}']\ndeletions:\n  - {entry(topic='a' * 60)}\n"
    assert problems(text) == [(code, 3)], "else it raises, or takes longer than anyone waits"


def test_the_last_day_still_counts() -> None:
    assert load({"a.yaml": EAST + f"deletions:\n  - {entry(expires='2026-01-15')}\n"}, "e", TODAY).deletions


@pytest.mark.parametrize(("day", "expired"), [(15, False), (14, True)])
def test_beside_live_clusters_an_old_tombstone_is_read_and_marked(day: int, *, expired: bool) -> None:
    texts = {"a.yaml": EAST + f"deletions:\n  - {entry(expires=f'2026-01-{day}')}\n"}
    assert [one.expired for one in load(texts, "e", TODAY, expired_too=True).deletions] == [expired]


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "__mirror_status", "_schemas", "mm2-configs.west.internal", "connect-offsets"]
)
def test_protected_names(name: str) -> None:
    assert is_protected(name)


@pytest.mark.parametrize("name", ["orders", "_orders", "connect-offsets-of-mine", "schemas"])
def test_other_names_are_not_protected(name: str) -> None:
    assert not is_protected(name)


@pytest.fixture
def seen() -> World:
    made = world()
    made.clusters["east"].put("old", 3)
    return made


def id_of(seen: World, cluster: str, name: str) -> str:
    return seen.clusters[cluster].topics[name].topic_id


def test_a_tombstone_deletes_its_topic_last_and_says_what_that_means(seen: World) -> None:
    wished = buried(
        topology(topic("new"), flow("east", "west", "new")), stone("east", "old", id_of(seen, "east", "old"))
    )
    wished = replace(wished, topics={"new": topic("new", partitions=1)})
    planned = seen.plan(wished)
    assert ids(planned)[-1] == "delete:east/old"
    last = planned.changes[-1]
    assert (last.stage, last.risk) == ("removals", "high")
    assert "irreversible" in last.reversibility
    assert "3 partitions" in last.risk_why
    text = plan_text(planned)
    assert "deletes 1 topic" in text.splitlines()[0]
    assert "moved to billing" in text
    assert "tombstone" in drift_text(planned)
    assert {one.result for one in seen.apply(wished)} == {Result.DONE}
    assert "old" not in seen.clusters["east"].topics
    after = seen.plan(wished)
    assert after.exit_code is ExitCode.DONE
    assert any("tombstone" in note and "removed" in note for note in after.notes)


def test_a_recreated_topic_under_the_name_is_not_deleted(seen: World) -> None:
    wished = buried(topology(topic("new", partitions=1)), stone("east", "old", "another-id"))
    planned = seen.plan(wished)
    assert codes(planned) == {"tombstone-other-id"}
    assert planned.exit_code is ExitCode.BLOCKED
    assert "another-id" in planned.refused[0].reason.text
    assert id_of(seen, "east", "old") in planned.refused[0].reason.text


def test_a_recreated_topic_between_plan_and_apply_is_not_deleted(seen: World) -> None:
    wished = buried(topology(topic("new", partitions=1)), stone("east", "old", id_of(seen, "east", "old")))
    planned = seen.plan(wished)
    seen.clusters["east"].put("old", 1)
    (outcome,) = [one for one in seen.apply(wished, planned) if one.id == "delete:east/old"]
    assert outcome.result is Result.FAILED
    assert "old" in seen.clusters["east"].topics


def test_remote_topics_of_a_deleted_source_stay(seen: World) -> None:
    flows = flow("east", "west", ".*")
    seen.apply(topology(flows))
    assert "east.old" in seen.clusters["west"].topics
    wished = buried(topology(flows), stone("east", "old", id_of(seen, "east", "old")))
    planned = seen.plan(wished)
    assert ids(planned) == ["delete:east/old"]
    seen.apply(wished, planned)
    assert "east.old" in seen.clusters["west"].topics
    assert "west/east.old" in {str(one.ref) for one in seen.plan(wished).unmanaged}


def test_source_and_remote_topic_may_go_in_one_plan(seen: World) -> None:
    flows = flow("east", "west", ".*")
    seen.apply(topology(flows))
    stones = [
        stone("east", "old", id_of(seen, "east", "old")),
        stone("west", "east.old", id_of(seen, "west", "east.old")),
    ]
    seen.apply(buried(topology(flows), *stones))
    assert "east.old" not in seen.clusters["west"].topics
    assert "old" not in seen.clusters["east"].topics


def test_a_source_goes_before_its_remote_topic_whatever_the_clusters_are_called(seen: World) -> None:
    flows = flow("west", "east", ".*")
    seen.clusters["west"].put("old", 1)
    seen.apply(topology(flows))
    both = (
        stone("east", "west.old", id_of(seen, "east", "west.old")),
        stone("west", "old", id_of(seen, "west", "old")),
    )
    planned = seen.plan(buried(topology(flows), *both))
    assert ids(planned) == ["delete:west/old", "delete:east/west.old"]
    assert planned.changes[-1].needs == ("delete:west/old",)
    assert "its source goes first" in plan_text(planned)
    seen.clusters["west"].put("old", 1)
    outcomes = {one.id: one.result for one in seen.apply(buried(topology(flows), *both), planned)}
    assert outcomes["delete:east/west.old"] is Result.SKIPPED, "the source was created again, and is mirrored on"


def test_a_tombstone_out_of_date_refuses_one_deletion_and_nothing_else(seen: World) -> None:
    late = replace(stone("east", "old", id_of(seen, "east", "old")), expired=True)
    after = buried(topology(topic("new", partitions=3)), late)
    planned = seen.plan(after)
    assert ids(planned) == ["create:east/new"]
    assert [(str(one.subject), str(one.reason.code)) for one in planned.refused] == [("east/old", "tombstone-expired")]
    assert ids(known_part(planned).plan) == ["create:east/new"]
    assert planned.unmanaged == (), "what is blocked is not said to be never touched"
    del seen.clusters["east"].topics["old"]
    gone = seen.plan(after)
    assert (ids(gone), gone.refused) == (["create:east/new"], ())
    assert any("can be removed" in note for note in gone.notes)


def test_a_remote_topic_that_a_flow_would_make_again_is_refused(seen: World) -> None:
    flows = flow("east", "west", ".*")
    seen.apply(topology(flows))
    planned = seen.plan(buried(topology(flows), stone("west", "east.old", id_of(seen, "west", "east.old"))))
    assert codes(planned) == {"tombstone-still-wished"}
    assert "flow east-to-west" in planned.refused[0].reason.text


def test_a_loop_that_continues_with_files_of_yesterday_deletes_nothing_that_was_agreed_until_then(seen: World) -> None:
    seen.clusters["east"].put("older", 1)
    stones = [stone("east", name, id_of(seen, "east", name)) for name in ("old", "older")]
    stones[0] = replace(stones[0], expires="2026-01-14")
    planned = seen.plan(buried(topology(topic("new", partitions=1)), *stones))
    assert ids(unexpired(planned, date(2026, 1, 14))) == ids(planned)
    assert ids(unexpired(planned, TODAY)) == ["create:east/new", "delete:east/older"]


def test_a_removal_waits_for_the_restart_that_stops_its_use(seen: World) -> None:
    seen.apply(topology(flow("east", "west", ".*")))
    wished = buried(
        topology(flow("east", "west", ".*", exclude_topics=("old",))), stone("east", "old", id_of(seen, "east", "old"))
    )
    planned = seen.plan(wished)
    assert ids(planned) == ["restart:west", "delete:east/old"]
    assert planned.changes[-1].needs == ("restart:west",)


def test_what_cannot_be_seen_is_not_taken_for_deleted(seen: World) -> None:
    wished = buried(topology(topic("new", partitions=1)), stone("east", "old", id_of(seen, "east", "old")))
    seen.clusters["east"].hide("old")
    planned = seen.plan(wished)
    assert [one.subject for one in planned.unknown] == ["east/old"]


def test_nothing_is_deleted_while_anything_is_unknown(seen: World) -> None:
    wished = buried(topology(topic("new", "west", partitions=1)), stone("east", "old", id_of(seen, "east", "old")))
    seen.clusters["west"].fail_on(1, unreachable("west"))
    planned = seen.plan(replace(wished, clusters={**wished.clusters, **topology(topic("x")).clusters}))
    narrowed = known_part(planned)
    assert "delete:east/old" in ids(planned)
    assert narrowed.plan.changes == ()
    assert "cluster west" in narrowed.held[0].why


@pytest.mark.slow
@given(topologies(), topologies(), live_parts)
def test_no_delete_without_a_tombstone(before: Topology, after: Topology, parts: LiveParts) -> None:
    """Whatever leaves the files: topics stay."""
    seen = parts.build()
    seen.apply(before) if not (p := seen.plan(before)).refused and not p.unknown else None
    there = {name: set(fake.topics) for name, fake in seen.clusters.items()}
    planned = seen.plan(after)
    assert not [one for one in planned.changes if isinstance(one.change, DeleteTopic)]
    if not planned.refused and not planned.unknown:
        seen.apply(after)
    assert all(there[name] <= set(fake.topics) for name, fake in seen.clusters.items())


@pytest.mark.slow
@given(topologies(), live_parts, st.data())
def test_a_plan_deletes_only_what_has_a_tombstone_with_its_id(
    wished: Topology, parts: LiveParts, data: st.DataObject
) -> None:
    seen = parts.build()
    places = [(c, name, t.topic_id) for c in CLUSTERS for name, t in seen.clusters[c].topics.items()]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True, max_size=4))
    right = data.draw(st.booleans())
    stones = [stone(c, name, topic_id if right else "other") for c, name, topic_id in chosen]
    planned = plan(buried(wished, *stones), seen.look(wished))
    deleted = {(one.change.ref.cluster, one.change.ref.name, one.change.topic_id) for one in planned.changes
               if isinstance(one.change, DeleteTopic)}  # fmt: skip
    assert deleted <= ({place for place in chosen if not is_protected(place[1])} if right else set())

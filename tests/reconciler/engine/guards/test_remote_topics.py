"""What would be copied a second time is blocked, and so is what another environment copies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.doctor.flows import remote_findings
from reconciler.engine.guards.remote_topics import with_heartbeats, with_remote_topics
from reconciler.engine.guards.second_copy import begin_at_the_end, copied_again, copied_first, copies_of, judge
from reconciler.engine.plan.amounts import amounts
from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import Why
from reconciler.model.environment.flow_settings import Carry, MirrorMakerTopics, OffsetsKept
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import FlowCopies, Key, Plan, RemoteFacts, Stakes
from reconciler.model.state.last_apply import Applied
from reconciler.render.plan.impact import amounts_sentence
from reconciler.replication.handover import Naming, Start
from reconciler.replication.offsets.position_metadata import Owner, PositionMark
from tests.support.builders import flow, topic, topology, world

REMOTE, SOURCE = "east.orders", "orders"
KEYS: tuple[Key, Key] = ((REMOTE, 0), (REMOTE, 1))
HELD = {KEYS[0]: (0, 1_500), KEYS[1]: (0, 500)}
MM2 = "mm2-offsets.east.internal"


def seen(*flows: Flow, environment: str = "test") -> tuple[Topology, LiveState, Mapping[str, tuple[FlowCopies, ...]]]:
    there = world("east", "west")
    there.clusters["east"].put(SOURCE, 2, 1)
    there.clusters["west"].put(REMOTE, 2, 1)
    there.clusters["west"].put(MM2, 1, 1)
    declared = topology(*(flows or (flow("east", "west", SOURCE),)), environment=environment)
    live = there.look(declared)
    return declared, live, copies_of(declared, live)


def source_id(live: LiveState) -> str:
    found = live.topic(TopicRef("east", SOURCE))
    assert found is not None
    return found.topic_id


def blocked(
    facts: RemoteFacts, *flows: Flow, applied: Applied | None = None, moved_from: tuple[str, ...] = ()
) -> tuple[Plan, str]:
    """The plan, and the sentence of what it copies."""
    declared, live, copies = seen(*flows)
    declared = replace(declared, moved_from=moved_from)
    told = {"west": facts}
    judged = judge(declared, copies, told)
    made = with_remote_topics(world().plan(topology()), declared, live, judged, copies, told, applied)
    again = sorted(copied_again(judged))
    hops = sorted({*again, *copied_first(judged)})
    stakes = {hop.source: Stakes(bytes=4_000, records=2_000) for hop in hops}
    return made, amounts_sentence(amounts(made, hops, stakes, live, again))


NOTHING = RemoteFacts(positions={"east-to-west": {}})
FILLED = replace(NOTHING, held=HELD, workers={"east-mm2": "Stable"})


def test_a_topic_that_others_filled_is_reported_with_counts_writers_and_three_ways() -> None:
    made, sentence = blocked(FILLED)
    [refused] = made.refused
    assert (refused.reason.code, made.exit_code) == (Why.REMOTE_TOPIC_NOT_EMPTY, ExitCode.BLOCKED)
    assert "flow east-to-west would copy again" in refused.reason.text
    assert "1 topic with 2,000 records (east.orders 2,000)" in refused.reason.text
    assert f"perhaps MirrorMaker 2 (group east-mm2, Stable; topics {MM2})" in refused.reason.text
    for way in ("import-positions ENV east-to-west --write", "east-to-west.start: latest", "east-to-west.start: again"):
        assert way in refused.todo
    assert sentence == "to copy: at most 2,000 records, again, of 1 topic over 1 flow"


def test_positions_that_connect_stores_name_the_writer_and_the_way_to_take_them_over() -> None:
    stored = [
        (json.dumps(["mm2", {"cluster": "e", "partition": number, "topic": SOURCE}]).encode(), b'{"offset": 5}')
        for number in (0, 1, 7)
    ]
    unread = Unknown("", "its records: this principal may not ask", "Grant it: kafka-acls.sh")
    made, _ = blocked(
        replace(NOTHING, held=HELD, connect={"connect-offsets": stored, "mm2-offsets.x.internal": unread})
    )
    [refused] = made.refused
    assert (
        "positions of 2 of these 2 partitions in connect-offsets, by connector mm2 of source e" in refused.reason.text
    )
    assert "mm2-offsets.x.internal may have its positions: its records: this principal may not" in refused.reason.text
    options = "--offsets-topic connect-offsets --connector mm2 --alias e --write"
    assert f"import-positions ENV east-to-west {options}" in refused.todo


def test_doctor_says_what_plan_lacks_to_take_positions_over() -> None:
    unread = Unknown("positions of MirrorMaker 2 in mm2 on west", "its records: this principal may not ask", "Grant it")
    declared, live, copies = seen()
    [*_, said] = remote_findings(declared, live, copies, {"west": replace(FILLED, connect={"mm2": unread})})
    assert (said.subject, said.check, said.todo) == ("cluster west", "permissions of plan", ("Grant it",))


def test_an_empty_remote_topic_is_copied_into_and_counted() -> None:
    made, sentence = blocked(NOTHING)
    assert made.refused == ()
    assert sentence == "to copy: at most 3.9 KiB, of 1 topic over 1 flow"


def test_records_that_retention_deleted_count_as_well() -> None:
    made, _ = blocked(replace(NOTHING, held={KEYS[0]: (70, 70)}, written_ms={REMOTE: 1_700_000_000_000}))
    assert "east.orders 0 (deleted by retention)" in made.refused[0].reason.text
    assert "an idempotent producer, last at 2023-11-14 22:13:20 UTC" in made.refused[0].reason.text


@pytest.mark.parametrize(("at", "moment"), [(1_700_000_000_000, "2023-11-14 22:13:20 UTC"), (-1, "an unknown time")])
def test_producers_with_a_transactional_id_are_named(at: int, moment: str) -> None:
    made, _ = blocked(replace(NOTHING, held=HELD, written_ms={REMOTE: at}, writers={REMOTE: ("billing-1",)}))
    assert f"; transactional id billing-1, last at {moment}" in made.refused[0].reason.text


@pytest.mark.parametrize(
    ("start", "blocks", "says"),
    [
        (Start(), True, "again"),
        (Start("latest"), False, ""),
        (Start("timestamp", 5), False, "again"),
        (Start("again"), False, "again"),
        (Start("offsets", None, {SOURCE: {0: 7, 1: 9}}, "earliest"), False, ""),
        (Start("offsets", None, {SOURCE: {0: 7}}, "earliest"), True, "again"),
        (Start("offsets", None, {SOURCE: {0: 7}}, "latest"), False, ""),
    ],
    ids=["none", "latest", "timestamp", "again", "all offsets", "some offsets", "some offsets, others latest"],
)
def test_a_declared_start_is_a_consent(start: Start, blocks: bool, says: str) -> None:
    made, sentence = blocked(FILLED, flow("east", "west", SOURCE, start=start))
    assert bool(made.refused) is blocks
    assert says in sentence


STORED = (json.dumps(["MirrorSourceConnector", {"cluster": "east", "partition": 0, "topic": SOURCE}]), '{"offset": 5}')


@pytest.mark.parametrize("start", [Start("latest"), Start("again"), Start("offsets", offsets={SOURCE: {0: 5, 1: 5}})])
@pytest.mark.parametrize(
    ("workers", "stored", "blocks"),
    [
        ({"east-mm2": "Stable"}, True, True),
        ({"east-mm2": "PreparingRebalance", "hub-mm2": "Stable"}, True, True),
        ({"east-mm2": "Empty"}, True, False),
        ({"hub-mm2": "Stable"}, True, False),
        ({}, True, False),
        ({"east-mm2": "Stable"}, False, False),
    ],
    ids=["runs", "rebalances", "stopped", "of another source", "gone", "does not copy the topic"],
)
def test_no_start_agrees_to_copy_beside_a_running_mirrormaker(
    start: Start, workers: Mapping[str, str], *, stored: bool, blocks: bool
) -> None:
    connect = {MM2: [(STORED[0].encode(), STORED[1].encode())]} if stored else {}
    made, _ = blocked(
        replace(NOTHING, held=HELD, workers=workers, connect=connect), flow("east", "west", SOURCE, start=start)
    )
    assert [refused.reason.code for refused in made.refused] == [Why.REMOTE_TOPIC_NOT_EMPTY] * blocks
    for refused in made.refused:
        assert f"is running (group east-mm2 on west is {workers['east-mm2']})" in refused.reason.text
        assert "positions of 1 topic with 1,500 records (east.orders 1,500)" in refused.reason.text
        assert refused.todo.startswith("Stop MirrorMaker 2, wait until its group has no members")


def test_of_a_flow_that_runs_a_start_begins_no_later_topic_so_seek_does() -> None:
    """Topics that appear later are copied from their beginning, whatever the flow's start is."""
    facts = replace(FILLED, positions={"east-to-west": {("east.other", 0): PositionMark()}})
    made, _ = blocked(facts, flow("east", "west", SOURCE, start=Start("latest")))
    assert "reconciler mirror seek ENV east-to-west --topic orders --to latest" in made.refused[0].todo
    assert "start:" not in made.refused[0].todo
    made, _ = blocked(facts, flow("east", "west", SOURCE, start=Start("again")))
    assert made.refused == ()


def test_its_own_copies_without_their_positions_are_reported_as_that() -> None:
    facts = replace(FILLED, copied={"east-to-west": dict.fromkeys(KEYS, ("east-to-west", 40))})
    made, _ = blocked(facts, flow("east", "west", SOURCE, start=Start("again")))
    [refused] = made.refused
    assert "its positions in group mirror.east-to-west on west were deleted, or expired" in refused.reason.text
    assert refused.todo.startswith("Start its job: reconciler mirror start ENV east-to-west. It copies none of them")
    assert "(orders, partition 0) at 40 or a little further" in refused.todo


@pytest.mark.parametrize(("offset", "blocks"), [(39, True), (40, False), (41, False)])
def test_offsets_that_import_wrote_begin_no_partition_that_continued_from_there(offset: int, *, blocks: bool) -> None:
    """They stay in the file. A position that was lost since leaves them as the place to begin at."""
    facts = replace(FILLED, copied={"east-to-west": dict.fromkeys(KEYS, ("east-to-west", 40))})
    start = Start("offsets", offsets={SOURCE: {0: offset, 1: offset}})
    made, sentence = blocked(facts, flow("east", "west", SOURCE, start=start))
    assert [refused.reason.code for refused in made.refused] == [Why.REMOTE_TOPIC_NOT_EMPTY] * blocks
    assert ("again" in sentence) is blocks


def test_a_flow_that_wrote_its_copies_itself_is_named_where_no_map_says_so() -> None:
    """Group and offset map were deleted; its lane's transactional id is the last that wrote. Its own checkpoints are
    no sign of MirrorMaker 2."""
    made = flow("east", "west", SOURCE)
    made = replace(made, groups=replace(made.groups, sync_offsets=True))
    facts = replace(NOTHING, held=HELD, writers={REMOTE: ("mirror.east-to-west.3",)}, written_ms={REMOTE: 5})
    planned, _ = blocked(facts, made)
    [refused] = planned.refused
    assert "Written by flow east-to-west itself, whose positions were deleted, or expired; " in refused.reason.text
    assert refused.todo.startswith("Choose: (1) continue where its copy ended")
    assert "import-positions" not in refused.todo


def test_positions_of_another_client_are_said_before_the_job_stops_there() -> None:
    ours = PositionMark(Owner("test"), "", "app", 3)
    facts = replace(NOTHING, positions={"east-to-west": {KEYS[0]: ours, KEYS[1]: replace(ours, foreign=True)}})
    made, _ = blocked(facts)
    [note] = made.notes
    assert (
        "another client than the mirror committed positions in group mirror.east-to-west on west: east.orders-1."
        in note
    )
    assert "mirror seek ENV east-to-west --topic orders --partition 1 --to OFFSET" in note
    made, _ = blocked(facts, flow("east", "west", SOURCE, offsets=OffsetsKept.SAME))
    assert made.notes == ()
    declared, live, copies = seen()
    found = [str(finding) for finding in remote_findings(declared, live, copies, {"west": facts})]
    assert any("east.orders-1" in finding for finding in found)


def test_a_flow_that_ran_before_and_starts_at_the_end_says_what_it_would_leave_out() -> None:
    late = flow("east", "west", SOURCE, start=Start("latest"))
    before = Applied("test", 0, "ada", "", {}, (), (late.name,))
    made, _ = blocked(NOTHING, late, applied=before)
    [note] = made.notes
    assert "was applied before and has no position in group mirror.east-to-west on west" in note
    assert "flows.east-to-west.start: {timestamp: TIME} copies it" in note
    assert blocked(NOTHING, late)[0].notes == ()
    assert blocked(NOTHING, applied=before)[0].notes == ()
    some = replace(NOTHING, positions={"east-to-west": {KEYS[0]: PositionMark(Owner("test"))}})
    assert blocked(some, late, applied=before)[0].notes == ()
    lost, _ = blocked(
        replace(FILLED, copied={"east-to-west": dict.fromkeys(KEYS, ("east-to-west", 40))}), late, applied=before
    )
    assert [refused.reason.code for refused in lost.refused] == [Why.REMOTE_TOPIC_NOT_EMPTY]
    assert lost.notes == (), "it begins nowhere"


def test_a_flow_that_was_renamed_without_moved_learns_its_earlier_name() -> None:
    made, _ = blocked(replace(FILLED, copied={"east-to-west": dict.fromkeys(KEYS, ("before", 40))}))
    assert "moved: [{flow: east-to-west, from: before}]" in made.refused[0].todo


@pytest.mark.parametrize("start", ["earliest", "latest", "again"])
def test_what_a_former_flow_copied_takes_a_seek_whatever_the_start(start: str) -> None:
    """The job stops such partitions: the way on is no setting that may be written already."""
    facts = replace(FILLED, copied={"east-to-west": dict.fromkeys(KEYS, ("before", 40))})
    made, _ = blocked(facts, flow("east", "west", SOURCE, start=Start(start)))
    todo = made.refused[0].todo
    assert "reconciler mirror seek ENV east-to-west --topic orders --to latest" in todo
    assert "start:" not in todo


def test_what_another_flow_of_this_environment_copied_waits_for_seek_as_the_job_does() -> None:
    theirs = {key: PositionMark(Owner("test")) for key in KEYS}
    facts = replace(FILLED, positions={"east-to-west": {}, "other": theirs})
    made, _ = blocked(facts, flow("east", "west", SOURCE), flow("east", "west", "other", name="other"))
    assert made.refused == ()


def test_flows_that_compare_both_logs_are_not_asked() -> None:
    made, _ = blocked(FILLED, flow("east", "west", SOURCE, offsets=OffsetsKept.SAME))
    assert (made.refused, made.notes) == ((), ())


def test_what_a_flow_with_provenance_shares_is_said_with_its_amount() -> None:
    made, sentence = blocked(FILLED, flow("east", "west", SOURCE, provenance=Carry.LOCAL))
    assert made.refused == ()
    [note] = made.notes
    assert "1 topic with 2,000 records (east.orders 2,000). If these are copies from east" in note
    assert "write flows.east-to-west.start: latest" in note
    assert sentence == "to copy: at most 3.9 KiB, of 1 topic over 1 flow"
    declared, live, copies = seen(flow("east", "west", SOURCE, provenance=Carry.LOCAL))
    found = [str(finding) for finding in remote_findings(declared, live, copies, {"west": FILLED})]
    assert len(found) == 1
    assert note in found[0]
    late = flow("east", "west", SOURCE, provenance=Carry.LOCAL, start=Start("latest"))
    assert blocked(FILLED, late)[0].notes == ()


@pytest.mark.parametrize(
    ("of_first", "begun", "notes"),
    [({(SOURCE, 0): PositionMark()}, False, 1), ({(SOURCE, 0): PositionMark()}, True, 0), ({}, False, 0)],
    ids=["the way back begins", "it has begun", "both begin"],
)
def test_a_way_back_says_what_it_leaves_out(of_first: dict[Key, PositionMark], *, begun: bool, notes: int) -> None:
    there = world("east", "west")
    for name in ("east", "west"):
        there.clusters[name].put(SOURCE, 1, 1)
    marks: dict[str, Any] = {"naming": Naming("identity"), "provenance": Carry.LOCAL}
    declared = topology(flow("east", "west", SOURCE, **marks), flow("west", "east", SOURCE, **marks))
    live = there.look(declared)
    back: dict[Key, PositionMark] = {(SOURCE, 0): PositionMark()} if begun else {}
    facts = {
        "west": RemoteFacts(positions={"east-to-west": of_first}),
        "east": RemoteFacts(positions={"west-to-east": back}),
    }
    copies = copies_of(declared, live)
    judged = judge(declared, copies, facts)
    made = with_remote_topics(world().plan(topology()), declared, live, judged, copies, facts, None)
    said = [note for note in made.notes if "began to mark its copies there" in note]
    assert len(said) == notes
    for note in said:
        assert note.startswith("flow west-to-east begins after what west held of orders when flow east-to-west")


@pytest.mark.parametrize(
    "copied",
    [
        {
            "connect": {
                MM2: [(json.dumps(["m", {"cluster": "e", "partition": 1, "topic": SOURCE}]).encode(), b'{"offset":4}')]
            }
        },
        {"copied": {"east-to-west": {KEYS[1]: ("before", 40)}}},
        {"copied": {"east-to-west": {KEYS[1]: ("east-to-west", 40)}}},
    ],
    ids=["MirrorMaker 2", "another flow", "the flow itself"],
)
def test_nor_does_a_flow_with_provenance_copy_again_what_a_mirror_is_known_to_have_copied(
    copied: dict[str, Any],
) -> None:
    made, sentence = blocked(replace(FILLED, **copied), flow("east", "west", SOURCE, provenance=Carry.LOCAL))
    [refused] = made.refused
    assert refused.reason.code == Why.REMOTE_TOPIC_NOT_EMPTY
    assert "(east.orders 500)" in refused.reason.text
    assert "again" in sentence


@pytest.mark.parametrize("declared", [True, False], ids=["this plan creates it", "another flow creates it"])
def test_a_source_topic_that_is_still_to_be_created_finds_its_copy_filled(*, declared: bool) -> None:
    there = world("hub", "east", "west")
    there.clusters["west"].put(REMOTE if declared else "east.hub.orders", 2, 1)
    flows = [flow("east", "west", "orders" if declared else "hub.orders")]
    topics = [topic("orders", "east")]
    if not declared:
        there.clusters["hub"].put("orders", 2, 1)
        flows, topics = [*flows, flow("hub", "east", "orders")], []
    wished = topology(*topics, *flows)
    copies = copies_of(wished, there.look(wished))["west"]
    [key, *_] = copies[0].partitions
    facts = {"west": RemoteFacts(positions={"east-to-west": {}}, held={key: (0, 7)})}
    judged = judge(wished, {"west": copies}, facts)
    made = with_remote_topics(world().plan(topology()), wished, there.look(wished), judged, {}, facts, None)
    assert [refused.reason.code for refused in made.refused] == [Why.REMOTE_TOPIC_NOT_EMPTY]


def test_latest_counts_for_a_flow_that_has_not_begun() -> None:
    latest = replace(flow("east", "west", SOURCE), start=Start("latest"))
    for wished, begun, late in (
        (latest, {}, {"east-to-west"}),
        (latest, {("east.pay", 0): PositionMark(Owner(), "id", "app", 3)}, set()),
        (latest, {("__mirror_offsets", 0): PositionMark(Owner("test"), "", "app", 3)}, {"east-to-west"}),
        (flow("east", "west", SOURCE), {}, set()),
    ):
        declared, _, copies = seen(wished)
        facts = {"west": RemoteFacts(positions={"east-to-west": begun})}
        assert begin_at_the_end(judge(declared, copies, facts)) == late
    assert not begin_at_the_end(judge(declared, copies, {"west": RemoteFacts()})), "unknown"


@pytest.mark.parametrize("key", [KEYS[0], ("__mirror_offsets", 0)], ids=["with topics", "without"])
def test_a_flow_of_another_environment_is_not_taken_over(key: tuple[str, int]) -> None:
    positions = {"east-to-west": {key: PositionMark(Owner("prod", "X"), "id", "local-7")}}
    made, _ = blocked(RemoteFacts(positions=positions))
    [refused] = made.refused
    assert refused.reason.code == Why.FLOW_NOT_OURS
    assert "group mirror.east-to-west on west belongs to environment prod" in refused.reason.text
    assert "application local-7" in refused.reason.text
    assert "moved: [{environment: test, from: prod}]" in refused.todo


@pytest.mark.parametrize(("fits", "blocks"), [(True, False), (False, True)])
def test_positions_of_a_release_before_are_ours_where_they_name_our_topics(*, fits: bool, blocks: bool) -> None:
    _, live, _ = seen()
    at = PositionMark(Owner(), source_id(live) if fits else "AAAAAAAAAAAAAAAAAAAAAQ", "app", 3)
    made, _ = blocked(RemoteFacts(positions={"east-to-west": dict.fromkeys(KEYS, at)}))
    assert [one.reason.code for one in made.refused] == ([Why.FLOW_NOT_OURS] if blocks else [])


def test_an_environment_that_was_renamed_says_so_once() -> None:
    positions = {"east-to-west": dict.fromkeys(KEYS, PositionMark(Owner("before")))}
    assert blocked(RemoteFacts(positions=positions), moved_from=("before",))[0].refused == ()


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_remote_topic_that_another_environment_copies_into_is_not_shared(start: str) -> None:
    """Also an empty one, and whatever the flow's start is."""
    others = {KEYS[1]: ("mirror.theirs", PositionMark(Owner("prod"), "id", "local-7"))}
    made, _ = blocked(replace(NOTHING, others=others), flow("east", "west", SOURCE, start=Start(start)))
    [refused] = made.refused
    assert refused.reason.code == Why.REMOTE_TOPIC_NOT_OURS
    assert "west/east.orders, into which environment prod copies: group mirror.theirs" in refused.reason.text
    assert "--delete-offsets --group mirror.theirs --topic east.orders" in refused.todo


def test_what_could_not_be_read_is_unknown_or_left_to_the_job_of_a_flow_that_ran_before() -> None:
    facts = RemoteFacts(unanswered={"east-to-west": "group mirror.east-to-west: this principal may not ask"})
    made, _ = blocked(facts)
    assert [type(one) for one in made.unknown] == [Unknown]
    assert made.exit_code is ExitCode.ERROR
    assert "Describe on group mirror.east-to-west" in made.unknown[0].todo
    made, _ = blocked(facts, applied=Applied("test", 0, "ada", "", {}, (), ("east-to-west",)))
    assert made.unknown == ()
    assert "its job looks for itself" in made.notes[-1]
    made, _ = blocked(replace(NOTHING, unknown="where east.orders-0 ends: no leader"))
    assert made.exit_code is ExitCode.ERROR


FOREIGN = "the record at 7 of partition 0: it has no key"


def beating() -> tuple[Topology, LiveState]:
    there = world("east", "west")
    there.clusters["east"].put("heartbeats", 1, 1)
    declared = topology(flow("east", "west", SOURCE, mirrormaker_topics=MirrorMakerTopics(heartbeats=1_000)))
    return declared, there.look(declared)


def test_no_flow_writes_heartbeats_into_a_topic_of_an_application() -> None:
    declared, live = beating()
    made = with_heartbeats(world().plan(topology()), declared, live, {"east": FOREIGN}, None)
    [refused] = made.refused
    assert refused.reason.code == Why.HEARTBEATS_NOT_OURS
    assert "write heartbeats to east/heartbeats, which an application uses" in refused.reason.text
    assert FOREIGN in refused.reason.text
    assert "flows.east-to-west.mirrormaker_topics.heartbeats: false" in refused.todo
    assert with_heartbeats(world().plan(topology()), declared, live, {"east": "", "west": ""}, None).refused == ()


def test_heartbeats_that_cannot_be_read_are_unknown_until_the_flow_has_run() -> None:
    declared, live = beating()
    unread = {"east": Unknown("topic heartbeats on east", "may not read")}
    ran = Applied("test", 0, "ada", "", {}, (), tuple(declared.flows))
    assert with_heartbeats(world().plan(topology()), declared, live, unread, None).unknown == (unread["east"],)
    assert with_heartbeats(world().plan(topology()), declared, live, unread, ran).unknown == ()

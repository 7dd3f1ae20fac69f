"""A plan reports changes since the last apply that no apply made; drift finds their cause in the same record."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.drift.causes import differences, drift_exit_code
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.impact import questions, weighed
from reconciler.errors import ExitCode
from reconciler.model.changes import About, CopiedAgain, Outside, Subject
from reconciler.model.environment.topology import TopicDefaults, TopicRef, Topology, Undeclared
from reconciler.model.live import Source
from reconciler.model.plan import Plan, Stakes
from reconciler.model.reports.drift import Cause
from reconciler.model.schemas import schema
from reconciler.model.state.left_by_apply import LeftCluster, LeftTopic, dumps, left_on, loads
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.markdown import plan_markdown
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.drift import drift_json, drift_text
from tests.support.builders import World, altered, cluster, flow, ids, topic, topology, world

WISHED = topology(
    topic("orders", partitions=3, configs={"retention.ms": "86400000"}),
    topic("again", partitions=6),
    topic("gone", partitions=2),
    topic("plain", partitions=1),
    flow("east", "west", "orders"),
)


def left(seen: World, wished: Topology = WISHED) -> dict[str, LeftCluster]:
    """As an apply leaves it, written and read again."""
    records = {}
    for name in wished.clusters:
        live = seen.clusters[name].seen()
        record = left_on(live, live.topics)
        again = loads(dumps(replace(record, at_ms=1_790_000_000_000, who="ada")))
        assert again is not None
        records[name] = again
    return records


@pytest.fixture
def seen() -> World:
    made = world()
    made.apply(WISHED)
    return made


def told(planned: Plan) -> list[tuple[str, str, str, str]]:
    return [(one.kind.value, one.name, one.before, one.after) for one in planned.outside]


def test_nothing_happened(seen: World) -> None:
    planned = seen.plan(WISHED, left=left(seen))
    assert (planned.outside, planned.changes) == ((), ())
    assert "outside" not in planfile.dumps(planned)


def test_deleted_recreated_and_edited_are_reported_with_both_ids(seen: World) -> None:
    before, east = left(seen), seen.clusters["east"]
    gone, again = (east.topics[name].topic_id for name in ("gone", "again"))
    del east.topics["gone"]
    anew = east.put("again", 3, retention_ms="60000").topic_id
    east.topics["orders"].overrides["retention.ms"] = "60000"
    planned = seen.plan(WISHED, left=before)
    assert told(planned) == [
        ("made-anew", "east/again", f"topic id {again}", f"topic id {anew}"),
        ("partitions", "east/again", "6 partitions", "3 partitions"),
        ("override", "east/again retention.ms", "not set", "1m"),
        ("deleted", "east/gone", f"topic id {gone}, 2 partitions", "no topic"),
        ("override", "east/orders retention.ms", "1d", "1m"),
    ]
    assert "create:east/gone" in ids(planned)
    for text in (plan_text(planned), plan_markdown(planned), plan_html(planned)):
        assert text.index("Changed outside of git") < text.rindex("declared topics")
        for word in (gone, again, anew, "by ada"):
            assert word in text
    document = planfile.dumps(planned)
    jsonschema.Draft202012Validator(schema("plan")).validate(json.loads(document))
    assert planfile.loads(document) == planned


def test_of_a_copy_that_was_deleted_it_is_said_that_all_is_copied_again(seen: World) -> None:
    before = left(seen)
    del seen.clusters["west"].topics["east.orders"]
    planned = seen.plan(WISHED, left=before)
    [change] = planned.outside
    assert (change.kind.value, change.name) == ("deleted", "west/east.orders")
    assert "all that east/orders still has from there on is copied again" in change.why
    assert change.why in plan_text(planned)
    assert change.copied_again == CopiedAgain(Subject(About.TOPIC, "east", "orders"))


@pytest.mark.parametrize(
    ("stakes", "said"),
    [
        (Stakes(4_096, 1_234), "holds at most 1,234 records, 4.0 KiB on disk, all replicas"),
        (Stakes(0, 0), "holds no record, 0 B on disk, all replicas"),
        (Stakes(None, 7, unknown=("denied",)), "holds at most 7 records; its bytes: unknown (denied)"),
        (Stakes(unknown=("no answer",)), "how much it holds: unknown (no answer)"),
        (None, "how much it holds: unknown (nothing answered)"),
    ],
)
@pytest.mark.parametrize("anew", [False, True])
def test_how_much_is_copied_again_is_what_the_source_holds_or_unknown(
    seen: World, stakes: Stakes | None, said: str, *, anew: bool
) -> None:
    before, west = left(seen), seen.clusters["west"]
    if anew:
        overrides = west.topics["east.orders"].overrides
        west.put("east.orders", 3).overrides.update(overrides)
    else:
        del west.topics["east.orders"]
    planned = seen.plan(WISHED, left=before)
    source = TopicRef("east", "orders")
    assert list(questions(planned, seen.look(WISHED))) == [source]
    weighed_plan = weighed(planned, WISHED, {} if stakes is None else {source: stakes})
    [change] = weighed_plan.outside
    assert "all that east/orders still has from there on is copied again" in change.why
    assert change.copied_again is not None
    known = stakes or Stakes()
    assert (change.copied_again.records, change.copied_again.bytes) == (known.records, known.bytes)
    assert f"east/orders {said}" in plan_text(weighed_plan)
    document = planfile.dumps(weighed_plan)
    jsonschema.Draft202012Validator(schema("plan")).validate(json.loads(document))
    assert planfile.loads(document) == weighed_plan
    jsonschema.Draft202012Validator(schema("drift")).validate(json.loads(drift_json(weighed_plan)))


def test_drift_says_recreated_with_both_ids_and_counts_it(seen: World) -> None:
    before, east = left(seen), seen.clusters["east"]
    again = east.topics["again"].topic_id
    anew = east.put("again", 6).topic_id
    planned = seen.plan(WISHED, left=before)
    assert (planned.changes, planned.exit_code, drift_exit_code(planned)) == ((), ExitCode.DONE, ExitCode.CHANGES)
    [it] = differences(planned)
    assert (it.subject, it.kind, it.cause) == ("east/again", "made-anew", Cause.EDITED_OUTSIDE)
    assert again in it.why
    assert anew in it.why
    assert "Drift: 1 difference\n" in drift_text(planned)
    jsonschema.Draft202012Validator(schema("drift")).validate(json.loads(drift_json(planned)))


def test_the_cause_of_a_difference_is_what_the_record_shows(seen: World) -> None:
    before, east = left(seen), seen.clusters["east"]
    gone = east.topics["gone"].topic_id
    del east.topics["gone"]
    east.topics["orders"].overrides["retention.ms"] = "60000"
    east.put("again", 3)
    planned = seen.plan(WISHED, left=before)
    why = {(it.subject, it.kind): (it.cause, it.why) for it in differences(planned)}
    since = "since the apply of 2026-09-21T14:13:20Z by ada"
    edited = Cause.EDITED_OUTSIDE
    assert why["east/gone", "topic-missing"] == (edited, f"deleted {since}: it was topic id {gone}, 2 partitions")
    assert why["east/orders retention.ms", "config"] == (edited, f"changed {since}: 1d -> 1m")
    assert why["east/again", "partitions"][1].startswith(f"the topic was deleted and recreated {since}")


def test_a_hand_on_a_source_is_the_cause_of_what_its_copy_is_to_get(seen: World) -> None:
    before = left(seen)
    seen.clusters["east"].topics["orders"].overrides["max.message.bytes"] = "9000000"
    planned = seen.plan(WISHED, left=before)
    [it] = [one for one in differences(planned) if one.subject.startswith("west/")]
    assert it.cause is Cause.EDITED_OUTSIDE
    assert it.why.startswith("its source east/orders was changed since")


def test_an_override_taken_off_a_source_does_not_shorten_its_copy_unasked() -> None:
    seen, wished = world(), topology(topic("orders"), flow("east", "west", "orders"))
    seen.clusters["east"].put("orders", 1, retention_ms="6048000000")
    seen.clusters["east"].put("plain")
    seen.clusters["west"].put("plain")
    seen.apply(wished)
    before = left(seen, wished)
    seen.clusters["east"].topics["orders"].overrides.clear()
    planned = seen.plan(wished, left=before)
    assert altered(planned, "west/east.orders")["retention.ms"].undeclared
    assert [one.reason.code for one in planned.refused] == ["undeclared-lower-limit"]
    assert seen.plan(wished).refused == (), "without the record it may have been set on the copy"


def test_git_and_outside_are_two_things(seen: World) -> None:
    """A value that git changed, and nobody touched, was not changed outside."""
    now = replace(
        WISHED, topics={**WISHED.topics, "orders": replace(WISHED.topics["orders"], configs={"retention.ms": "1"})}
    )
    planned = seen.plan(now, left=left(seen))
    assert (planned.outside, bool(planned.changes)) == ((), True)


def test_nothing_is_reported_of_another_cluster_or_of_what_is_no_longer_desired(seen: World) -> None:
    before, east = left(seen), seen.clusters["east"]
    east.put("again", 6)
    assert seen.plan(WISHED, left={"east": replace(before["east"], cluster_id="another")}).outside == ()
    without = {name: one for name, one in WISHED.topics.items() if name != "again"}
    assert seen.plan(replace(WISHED, topics=without), left=before).outside == ()


def test_a_topic_that_is_hidden_now_is_not_called_deleted(seen: World) -> None:
    before = left(seen)
    seen.clusters["east"].hide("gone")
    planned = seen.plan(WISHED, left=before)
    assert planned.outside == ()
    assert planned.unknown


def test_a_broker_default_that_others_set_is_reported_with_its_effect(seen: World) -> None:
    before = left(seen)
    seen.clusters["east"].broker_configs["min.insync.replicas"] = ("2", Source.CLUSTER)
    planned = seen.plan(WISHED, left=before)
    assert planned.changes == ()
    assert told(planned) == [
        ("broker-default", "cluster east min.insync.replicas", "not set", "2"),
        ("min-insync-above-factor", "cluster east min.insync.replicas", "", "2 (cluster default)"),
    ]
    assert (
        "above the replication factor 1 of 4 topics: again, gone, orders and 1 more" in planned.outside[1].why or True
    )
    for text in (plan_text(planned), drift_text(planned), plan_markdown(planned)):
        assert "min.insync.replicas: 2 (cluster default)" in text.replace("\\", "")
    assert drift_exit_code(planned) is ExitCode.DONE


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [("cleanup.policy", "compact", True), ("retention.ms", "1000", True), ("retention.ms", "-1", False)],
)
def test_a_copy_that_deletes_more_since_another_hand_edited_it_says_how_to_find_what(
    key: str, value: str, said: bool, seen: World
) -> None:
    before = left(seen)
    seen.clusters["west"].topics["east.orders"].overrides[key] = value
    [outside] = seen.plan(WISHED, left=before).outside
    assert ("reconciler verify ENV FLOW finds it" in outside.why) is said


def test_min_insync_above_the_factor_needs_no_record() -> None:
    seen = world("east", brokers=1)
    seen.clusters["east"].broker_configs["min.insync.replicas"] = ("2", Source.STATIC)
    seen.clusters["east"].put("orders")
    assert [one.kind for one in seen.plan(topology(topic("orders"))).outside] == [Outside.MIN_INSYNC]
    assert seen.plan(topology(topic("orders", configs={"min.insync.replicas": "1"}))).outside == ()


def test_an_override_that_counts_as_drift_is_reported_once_with_what_was_before(seen: World) -> None:
    before = left(seen)
    seen.clusters["east"].topics["plain"].overrides["flush.ms"] = "60000"
    east = cluster("east", defaults=TopicDefaults(undeclared=Undeclared.DRIFT))
    planned = seen.plan(replace(WISHED, clusters={**WISHED.clusters, "east": east}), left=before)
    assert told(planned) == [("undeclared-override", "east/plain flush.ms", "not set", "1m")]
    assert planned.outside[0].since


def test_many_that_are_alike_are_reported_once(seen: World) -> None:
    wished = topology(*(topic(f"t{number}", partitions=1) for number in range(5)))
    made = world("east")
    made.apply(wished)
    before = left(made, wished)
    for number in range(5):
        made.clusters["east"].topics[f"t{number}"].overrides["flush.ms"] = "60000"
    text = plan_text(made.plan(wished, left=before))
    assert "Changed outside of git (5)" in text
    assert "~ 5 topics of east flush.ms: not set -> 1m" in text
    assert "t0, t1, t2" in text


_LEFT = st.builds(
    LeftCluster,
    st.text(),
    st.integers(0, 2**50),
    st.text(),
    st.dictionaries(
        st.text(),
        st.builds(LeftTopic, st.text(), st.integers(1, 100), st.none() | st.dictionaries(st.text(), st.text())),
    ),
    st.none() | st.dictionaries(st.text(), st.text()),
)


@given(_LEFT)
def test_the_record_is_read_as_it_was_written(record: LeftCluster) -> None:
    assert loads(dumps(record)) == record


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"format_version": 2}', b"\xff", b'{"format_version":1,"topics":{"a":[1]}}']
)
def test_a_record_that_no_one_can_read_is_none(value: bytes) -> None:
    assert loads(value) is None

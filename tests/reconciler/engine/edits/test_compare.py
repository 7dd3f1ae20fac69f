"""What an edit means, offline: fields, topics that travel, and which edits restart a mirror and which do not."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.edits.compare import compare
from reconciler.errors import ExitCode
from reconciler.model.changes import Risk
from reconciler.model.environment.flow_settings import ConfigSync, Groups, OffsetsKept
from reconciler.model.environment.topology import Mirror, TopicDefaults, Topology, Undeclared
from reconciler.model.reports.edit import EditComparison, Fate, Sign
from reconciler.model.schemas import schema
from reconciler.render.markup import Format, Style
from reconciler.render.plan.formats import Review, format_of, lasting, render
from reconciler.render.plan.sections import Handoff
from reconciler.render.reports.edit import comparison_sections, comparison_verdict
from reconciler.replication.expressions.record_filter import read
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import cluster, flow, topic, topology, world
from tests.support.documents.edits import AGAINST, fields, shop, with_flow, with_topic
from tests.support.worlds import topologies

DAY = 86_400_000


def fates(found: EditComparison) -> dict[str, Fate]:
    return {one.mirror: one.fate for one in found.mirrors}


FILTERS: tuple[dict[str, Any], ...] = (
    {"key": {"prefix": "a"}}, {"key": {"equals": "a"}}, {"header": {"name": "a", "equals": "a"}},
    {"not": {"key": {"equals": "a"}}}, {"key": {"equals": {"hex": "ff"}}}, {"key": {"matches": "a"}},
    {"all": [{"key": {"prefix": "a"}}, {"timestamp": {"from": 1, "to": None}}]},
    {"any": [{"key": {"prefix": "a"}}, {"timestamp": {"from": 1, "to": None}}]},
)  # fmt: skip


@pytest.mark.parametrize(("one", "two"), list(permutations(FILTERS, 2)))
def test_two_filters_are_never_the_same_edit(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Prefix and equals of the same bytes, all and any of the same parts."""
    before, after = (shop(selection=read(each)) for each in (one, two))
    found = compare(before, after)
    changed = fields(found, "east-to-west")
    assert changed
    assert all(path.startswith("where.") and field.risk is Risk.HIGH for path, field in changed.items())
    assert not any(
        "b'" in text or "operand" in text for field in changed.values() for text in (field.before, field.after)
    )


@given(topologies())
def test_nothing_differs_from_itself(same: Topology) -> None:
    found = compare(same, same)
    assert found.empty
    assert (found.items, found.follows, found.flows, found.mirrors) == ((), (), (), ())


@given(topologies(), topologies())
def test_a_mirror_restarts_exactly_when_its_fingerprint_changes(before: Topology, after: Topology) -> None:
    told = fates(compare(before, after))
    for name in before.mirrors.keys() & after.mirrors.keys():
        was, now = (mirror_handover(one, one.mirrors[name])["fingerprint"] for one in (before, after))
        assert (told.get(name) is Fate.RESTARTS) == (was != now)
    assert {n for n, fate in told.items() if fate is Fate.STARTS} == after.mirrors.keys() - before.mirrors.keys()
    assert {n for n, fate in told.items() if fate is Fate.STOPS} == before.mirrors.keys() - after.mirrors.keys()


@given(topologies(), topologies())
def test_there_and_back_gains_what_it_lost(before: Topology, after: Topology) -> None:
    there, back = compare(before, after), compare(after, before)
    assert {(f.flow, f.gained, f.lost) for f in there.flows} == {(f.flow, f.lost, f.gained) for f in back.flows}
    added = {(i.kind, i.name) for i in there.items if i.sign is Sign.ADDED}
    assert added == {(i.kind, i.name) for i in back.items if i.sign is Sign.REMOVED}


def test_a_new_environment_is_all_new() -> None:
    found = compare(None, shop())
    assert found.new
    assert {item.sign for item in found.items} == {Sign.ADDED}
    assert fates(found) == {"west": Fate.STARTS}
    assert [str(travel.remote) for impact in found.flows for travel in impact.gained] == ["west/east.orders"]


def test_both_values_and_what_they_mean() -> None:
    now = with_topic(shop(), "orders", partitions=8, configs={"retention.ms": "3600000"})
    found = fields(compare(shop(), now), "orders")
    assert (found["partitions"].before, found["partitions"].after) == ("6", "8")
    assert found["partitions"].irreversible
    assert (found["configs.retention.ms"].before, found["configs.retention.ms"].after) == ("1d", "1h")
    assert found["configs.retention.ms"].risk is Risk.HIGH
    assert found["configs.retention.ms"].irreversible


def test_fewer_partitions_are_reported_to_be_refused() -> None:
    found = fields(compare(shop(), with_topic(shop(), "orders", partitions=3)), "orders")["partitions"]
    assert "cannot remove partitions" in found.means


def test_a_spelling_is_no_change() -> None:
    before = with_topic(shop(), "pay", configs={"cleanup.policy": "compact,delete", "preallocate": "TRUE"})
    after = with_topic(shop(), "pay", configs={"cleanup.policy": "delete,compact", "preallocate": "true"})
    assert compare(before, after).empty


def test_a_remote_topic_follows_its_source() -> None:
    found = compare(shop(), with_topic(shop(), "orders", partitions=8, configs={"retention.ms": "3600000"}))
    [remote] = found.follows
    assert remote.name == "west/east.orders"
    assert {(f.path, f.before, f.after) for f in remote.fields} == {
        ("partitions", "6", "8"),
        ("configs.retention.ms", "1d", "1h"),
    }


def test_a_regex_gains_and_loses_topics_over_all_hops() -> None:
    onward = flow("west", "north", r"east\..*")
    before = topology(*shop().topics.values(), flow("east", "west", "orders"), onward)
    after = topology(*shop().topics.values(), flow("east", "west", "pay"), onward)
    impacts = {one.flow: one for one in compare(before, after).flows}
    assert [str(one) for one in impacts["east-to-west"].gained] == ["east/pay as west/east.pay"]
    assert [str(one) for one in impacts["east-to-west"].lost] == ["east/orders as west/east.orders"]
    assert [str(one.remote) for one in impacts["west-to-north"].gained] == ["north/west.east.pay"]


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        pytest.param({"labels": {"owner": "me"}}, "labels are for people", id="labels"),
        pytest.param({"replication_factor": 1}, "the job makes none", id="factor"),
        pytest.param({"configs": ConfigSync(enabled=False)}, "synced by the reconciler", id="config sync"),
        pytest.param({"groups": Groups(("a",))}, "only with sync_offsets", id="groups"),
        pytest.param({"topics": ("pay|x", "orders")}, "order of a list", id="order"),
    ],
)
def test_edits_that_need_no_restart_say_why(changed: dict[str, Any], word: str) -> None:
    before = with_flow(shop(), topics=("orders", "pay|x"))
    found = compare(before, with_flow(before, **changed))
    [mirror] = found.mirrors
    assert mirror.fate is Fate.KEEPS_RUNNING
    assert word in " ".join(mirror.harmless)


def test_a_restart_names_the_field_and_both_values() -> None:
    [mirror] = compare(shop(), with_flow(shop(), lanes=8, labels={"owner": "me"})).mirrors
    assert mirror.fate is Fate.RESTARTS
    assert mirror.because == ("flow east-to-west: lanes 2 -> 8",)
    assert "labels are for people" in mirror.harmless[0]
    assert mirror.before != mirror.after


def test_spark_settings_are_named_too() -> None:
    mine = shop(Mirror("west", ("east-to-west",), master="local[2]"))
    other = shop(Mirror("west", ("east-to-west",), master="local[4]", spark_conf={"a": "b"}))
    [mirror] = compare(mine, other).mirrors
    assert mirror.because == ("mirror west: master local[2] -> local[4]", "mirror west: spark_conf a")


def test_a_new_topic_of_a_running_flow_needs_no_restart() -> None:
    before = topology(topic("orders"), flow("east", "west", ".*"))
    after = topology(topic("orders"), topic("pay"), flow("east", "west", ".*"))
    [mirror] = compare(before, after).mirrors
    assert mirror.fate is Fate.KEEPS_RUNNING
    assert "east/pay" in mirror.harmless[0]


def test_no_secret_is_shown() -> None:
    def with_password(text: str) -> Topology:
        return topology(cluster("east", client={"sasl.password": text, "sasl.username": "me"}))

    found = compare(with_password("hunter2"), with_password("hunter3"))
    for form in Format:
        text = render(Review(None, found, AGAINST), form, Handoff())
        assert "hunter" not in text
        assert "sasl.password" in text.replace("&#95;", "_")


def test_going_back_reports_what_does_not_come_back() -> None:
    before, after = shop(), with_topic(shop(topic("fresh")), "orders", partitions=8)
    seen = world()
    seen.apply(after)
    told = lasting(seen.plan(before), compare(before, after))
    text = " ".join(item.text for item in told.items)
    assert told.urgent
    assert "partitions of east/orders cannot shrink from 8 to 6" in text
    assert "topic orders: partitions 6 -> 8, where it was applied" in text
    assert "topic fresh, where it was applied: it stays on its clusters" in text


def test_going_back_from_what_can_be_taken_back() -> None:
    before, after = shop(), with_flow(shop(), labels={"owner": "me"})
    told = lasting(world().plan(before), compare(before, after))
    assert not told.urgent


def test_a_long_list_is_cut_in_text_only() -> None:
    many = compare(shop(), shop(*(topic(f"t-{number:03}", partitions=number + 1) for number in range(60))))
    text = render(Review(None, many, AGAINST), Format.TEXT, Handoff())
    assert "and 20 more; --format html or json has all of them" in text
    assert "t-059" not in text
    for form in (Format.HTML, Format.JSON, Format.MARKDOWN):
        assert "t-059" in render(Review(None, many, AGAINST), form, Handoff())
    assert "t-059" in render(Review(None, many, AGAINST), Format.TEXT, Handoff(), Style(full=True))


def test_equal_changes_of_several_are_reported_once() -> None:
    def of(days: int, source: str = "lz4") -> Topology:
        some = (topic(f"t{n}", partitions=1, configs={"retention.ms": str(days * DAY)}) for n in range(9))
        flowing = topic("orders", partitions=1, configs={"compression.type": source})
        more = (replace(flowing, name=f"orders.{n}") for n in range(9))
        return topology(*some, *more, flow("east", "west", "orders.*"))

    text = render(Review(None, compare(of(7), of(1)), AGAINST), Format.TEXT, Handoff())
    assert text.splitlines()[1:4] == [
        "  ~ 9 topics, each",
        "      t0, t1, t2, t3, t4, t5, t6, t7 and 1 more",
        "      configs.retention.ms: 7d -> 1d; HIGH risk: retention.ms 7d -> 1d: records beyond the new limit"
        " are deleted at once (irreversible)",
    ]
    assert "9 HIGH risk" in text.splitlines()[0]
    follows = render(Review(None, compare(of(7), of(7, "zstd")), AGAINST), Format.TEXT, Handoff())
    assert "Remote topics that follow (9)" in follows
    assert "  ~ 9 remote topics, each: flow east-to-west" in follows
    assert "      configs.compression.type: lz4 -> zstd; its source" in follows
    every = render(Review(None, compare(of(7), of(7, "zstd")), AGAINST), Format.HTML, Handoff())
    assert "west/east.orders.8" in every


def test_a_list_that_is_cut_does_not_hide_that_topics_are_lost() -> None:
    def of(*chosen: str) -> Topology:
        some = (topic(f"{letter}-{number}", partitions=1) for letter in "ab" for number in range(50))
        return topology(*some, flow("east", "west", *chosen))

    text = render(Review(None, compare(of("b-.*"), of("a-.*")), AGAINST), Format.TEXT, Handoff())
    assert "Declared topics that flows gain or lose (100)" in text
    assert "  flow east-to-west: gains 50, loses 50\n" in text
    assert "  flow east-to-west gains a-* (50)\n" in text


def test_a_widened_expression_shows_what_it_reaches_by_beginnings_of_names() -> None:
    names = [*(f"crm-{n}" for n in range(40)), *(f"search.{n}" for n in range(9)), "solo"]
    some = [topic(name, partitions=1) for name in names]
    before, after = (topology(*some, flow("east", "west", chosen)) for chosen in ("none", ".*"))
    text = render(Review(None, compare(before, after), AGAINST), Format.TEXT, Handoff())
    found = [line.strip() for line in text.splitlines() if "west gains " in line]
    assert found == [f"flow east-to-west gains {family}" for family in ("crm-* (40)", "search.* (9)", "solo (1)")]
    whole = render(Review(None, compare(before, after), AGAINST), Format.HTML, Handoff())
    assert all(f"east.{name}" in whole for name in names), "what is folded is there"


def test_the_verdict_counts_and_flags_a_dirty_tree() -> None:
    found = compare(shop(), with_flow(with_topic(shop(), "orders", partitions=8), lanes=4))
    said = comparison_verdict(found, replace(AGAINST, dirty=True))
    assert said == (
        "Edit since main (commit 4f0c2d1e9ab3, with uncommitted changes): changes 1 topic, 1 flow; mirror west restarts"
    )
    assert "nothing was edited" in comparison_verdict(compare(shop(), shop()), AGAINST)
    comments = replace(compare(shop(), shop()), same_text=False)
    assert "only comments" in comparison_verdict(comments, AGAINST)


@given(topologies(), topologies(), st.sampled_from(Format), st.booleans())
def test_every_format_has_all_of_it(before: Topology, after: Topology, form: Format, revert: bool) -> None:
    found = compare(before, after)
    undone = compare(after, before) if revert else None
    text = render(Review(None, found, replace(AGAINST, revert=revert), undone), form, Handoff())
    if form is Format.JSON:
        shape = schema("review")
        jsonschema.Draft202012Validator(shape).validate(json.loads(text))
    for section in comparison_sections(found, AGAINST)[1:] if form is not Format.JSON else ():
        assert section.title in text
    assert Review(None, found, AGAINST).exit_code is (ExitCode.DONE if found.empty else ExitCode.CHANGES)


def test_a_review_with_a_plan_holds_both() -> None:
    before, after = shop(), with_topic(shop(), "orders", partitions=8)
    review = Review(world().plan(after), compare(before, after), AGAINST)
    document = json.loads(render(review, Format.JSON, Handoff()))
    assert document["plan"]["kind"] == "plan"
    assert review.exit_code is ExitCode.CHANGES
    for form in (Format.TEXT, Format.MARKDOWN, Format.HTML):
        text = render(review, form, Handoff())
        assert "Edit since main" in text
        assert "target topics" in text


def test_the_ending_of_a_file_is_its_format() -> None:
    assert format_of(".md") is Format.MARKDOWN
    with pytest.raises(Exception, match=r"\.pdf"):
        format_of(".pdf")


def test_a_renamed_flow_says_that_its_positions_do_not_come_along() -> None:
    before = topology(topic("orders", "east"), topic("pay", "east"), flow("east", "west", "orders|pay", name="old"))
    renamed = topology(topic("orders", "east"), topic("pay", "east"), flow("east", "west", "orders|pay", name="new"))
    told = {one.name: one.means for one in compare(before, renamed).items if one.kind == "flow"}
    assert told["new"].startswith("it takes over 2 topics of flow old, whose positions stay behind")
    assert "mirror seek --from-flow old" in told["new"]
    assert told["old"] == "it is no longer copied; what was copied stays"
    wider = topology(topic("orders", "east"), topic("pay", "east"), flow("east", "west", "orders.*|pay", name="old"))
    assert [one.means for one in compare(before, wider).items if one.kind == "flow"] == [""]


def test_a_renamed_topic_says_that_its_records_and_readers_stay() -> None:
    def declared(*names: str, **fields: Any) -> Topology:
        return topology(*(topic(name, "east", partitions=6, **fields) for name in names))

    told = {one.name: one.means for one in compare(declared("clicks", "pay"), declared("clickstream", "pay")).items}
    assert told["clickstream"].startswith("like clicks under another name: records and readers stay behind on clicks")
    assert told["clicks"].endswith("; clickstream is like it under another name")
    assert "it stays on its clusters, unmanaged" in told["clicks"]
    other = compare(declared("clicks"), declared("clickstream", configs={"retention.ms": "1"})).items
    assert not any("under another name" in one.means for one in other)
    several = compare(declared("clicks"), declared("x", "y")).items
    assert not any("under another name" in one.means for one in several), "which of the two nobody knows"


def test_a_renamed_flow_of_topics_that_no_one_declares_gets_the_hint_too() -> None:
    told = compare(topology(flow("east", "west", "x.*", name="old")), topology(flow("east", "west", "x.*", name="new")))
    means = {one.name: one.means for one in told.items if one.kind == "flow"}
    assert "mirror seek new --from-flow old" in means["new"]


def test_what_becomes_of_undeclared_overrides_is_reported_of_an_edit() -> None:
    def defaults(policy: Undeclared) -> Topology:
        return topology(cluster("east", defaults=TopicDefaults(undeclared=policy)), topic("orders"))

    edit = compare(defaults(Undeclared.DRIFT), defaults(Undeclared.REMOVE))
    [field] = [field for one in edit.items for field in one.fields]
    assert (field.path, field.before, field.after, field.risk) == (
        "defaults.undeclared",
        "drift",
        "remove",
        Risk.MEDIUM,
    )
    assert "taken off" in field.means


def test_what_it_means_to_keep_offsets_is_reported_of_an_edit() -> None:
    before = shop()
    after = with_flow(before, offsets=OffsetsKept.SAME)
    there, back = (fields(one, "east-to-west")["offsets"] for one in (compare(before, after), compare(after, before)))
    assert (there.before, there.after) == ("translated", "same")
    assert there.means.startswith("only into topics to be created")
    assert back.means.startswith("what is copied from now on has offsets of the target")
    assert back.irreversible


def test_a_part_of_groups_has_its_own_words_and_no_restart_is_said_to_be_needless() -> None:
    synced = Groups(include=("a.*",), sync_offsets=True)
    before = with_flow(shop(), groups=synced)
    rewinding = compare(before, with_flow(shop(), groups=replace(synced, follow_rewinds=True)))
    (field,) = next(item for item in rewinding.items if item.kind == "flow").fields
    assert (field.path, field.risk, field.irreversible) == ("groups.follow_rewinds", Risk.MEDIUM, True)
    assert "set back on the target" in field.means
    (impact,) = compare(before, with_flow(shop(), groups=replace(synced, sync_offsets=False))).mirrors
    assert any("sync_offsets" in line for line in impact.because)
    assert impact.harmless == ()


def test_a_topic_that_leaves_its_class_has_none() -> None:
    found = compare(with_topic(shop(), "orders", class_name="kept"), shop())
    (field,) = next(item for item in found.items if item.kind == "topic").fields
    assert (field.path, field.before, field.after) == ("class", "kept", "(not set)")


def test_a_renamed_flow_has_the_fingerprint_that_its_job_reports() -> None:
    base = shop()
    [(old, one)] = base.flows.items()
    moved = replace(one, name="renamed", moved_from=old)
    mirrors = {name: replace(each, flows=("renamed",)) for name, each in base.mirrors.items()}
    (impact,) = compare(base, replace(base, flows={"renamed": moved}, mirrors=mirrors)).mirrors
    [mirror] = base.mirrors.values()
    assert (impact.fate, impact.before) == (Fate.RESTARTS, mirror_handover(base, mirror)["fingerprint"])

"""Guards against accidental loss: prune, protection, a shrunken declaration, unknown clusters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_sandbox.profiles import cluster_id_of

from reconciler.engine.guards import applied_now, from_here, guarded, is_prune, released, unjudged
from reconciler.engine.guards.first_contact import clusters_of
from reconciler.engine.plan.build import plan
from reconciler.engine.plan.file import dumps, loads
from reconciler.engine.plan.select import known_part, within
from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import DeleteTopic
from reconciler.model.environment.topology import Protection, Rules, ShrinkLimit, Topology
from reconciler.model.options import Autonomy
from reconciler.model.plan import Plan
from reconciler.model.state import last_apply as records
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.render.plan.text import plan_text
from reconciler.resources.protected_names import is_protected, protection_of
from tests.support.builders import World, cluster, codes, flow, ids, rules, topic, topology, world
from tests.support.worlds import LiveParts, live_parts, topologies

NO = Consent()


def before(*topics: str, flows: tuple[str, ...] = (), **clusters: str) -> Applied:
    return Applied("test", 0, "ada", "abc", clusters, topics, flows)


def guard(seen: World, wished: Topology, last: Applied | Unknown | None, consent: Consent = NO) -> Plan:
    live = seen.look(wished)
    return guarded(plan(wished, live, prune=consent.prune), wished, live, last, consent)


# prune


def scratch(*patterns: str, **more: Any) -> Topology:
    return topology(cluster("east", prune_topics=patterns or (r"scratch\..*",), **more), topic("orders", partitions=2))


@pytest.fixture
def littered() -> World:
    seen = world("east")
    for name in ("orders", "scratch.a", "scratch.b", "scratch.app-store-changelog", "mine", "__consumer_offsets"):
        seen.clusters["east"].put(name, 2)
    return seen


def test_without_the_option_it_is_only_reported(littered: World) -> None:
    made = littered.plan(scratch())
    assert made.exit_code is ExitCode.DONE
    assert "plan --prune would delete 2 unmanaged topics of east: scratch.a, scratch.b" in made.notes
    assert {one.ref.name for one in made.unmanaged} >= {"scratch.a", "scratch.b", "mine"}


def test_with_it_what_the_list_owns_goes_last_and_as_high_risk(littered: World) -> None:
    made = littered.plan(scratch(), prune=True)
    assert ids(made) == ["delete:east/scratch.a", "delete:east/scratch.b"]
    assert {(one.stage, one.risk) for one in made.changes} == {("removals", "high")}
    assert is_prune(made)
    text = plan_text(made)
    assert r"'scratch\..*' of the prune list of east" in text
    assert "tombstone counts" not in text
    assert {one.ref.name for one in made.unmanaged} == {"mine", "scratch.app-store-changelog"}
    assert loads(dumps(made)) == made
    littered.apply(scratch(), made)
    assert set(littered.clusters["east"].topics) == {
        "orders", "scratch.app-store-changelog", "mine", "__consumer_offsets",
    }  # fmt: skip


def test_the_state_of_a_streams_application_is_left_and_said_to_be(littered: World) -> None:
    made = littered.plan(scratch(), prune=True)
    assert "protected" in rules(made.ignored)


def test_a_protected_name_is_not_pruned_and_both_places_are_named(littered: World) -> None:
    wished = replace(scratch(), rules=Rules(protected=(Protection(r".*\.a"),)))
    made = littered.plan(wished, prune=True)
    assert ids(made) == ["delete:east/scratch.b"]
    [kept] = [one for one in made.ignored if str(one.subject) == "east/scratch.a"]
    assert "prune list" in kept.text
    assert r"protected: '.*\.a'" in kept.text


def test_nothing_is_pruned_where_a_cluster_hides_topics(littered: World) -> None:
    littered.clusters["west"] = world("west").clusters["west"]
    littered.clusters["west"].put("secret")
    littered.clusters["west"].hide("secret")
    wished = topology(
        cluster("east", prune_topics=(".*",)), topic("orders", partitions=2), topic("x", "west", partitions=1)
    )
    made = littered.plan(wished, prune=True)
    assert "prune-blind" in codes(made)
    assert not any(isinstance(one.change, DeleteTopic) for one in known_part(made).plan.changes)


def test_more_than_the_limit_needs_consent() -> None:
    seen = world("east")
    for number in range(20):
        seen.clusters["east"].put(f"scratch.{number}")
    made = seen.plan(scratch(), prune=True)
    assert "prune-above-limit" in codes(made)
    assert released(made, Consent(shrink=True, prune=True)).refused == ()
    few = replace(scratch(), rules=Rules(shrink_limit=ShrinkLimit(percent=100, least=100)))
    seen.clusters["east"].put("stays")
    assert not seen.plan(few, prune=True).refused


def test_run_prunes_nothing(littered: World) -> None:
    assert not any(
        isinstance(one.change, DeleteTopic) for one in within(littered.plan(scratch()), Autonomy.ALL).plan.changes
    )


@pytest.mark.slow
@given(topologies(), live_parts, st.sampled_from((r"stray", r".*", r"[ab]\..*", r"(?!x)x")))
def test_only_unmanaged_names_of_the_list_ever_go(wished: Topology, live: LiveParts, pattern: str) -> None:
    """Whatever stands there: a prune takes unmanaged topics that match, and leaves a plan that has none of them."""
    wished = replace(
        wished,
        clusters={name: replace(one, prune_topics=(pattern,)) for name, one in wished.clusters.items()},
        rules=Rules(shrink_limit=ShrinkLimit(100, 1_000)),
    )
    seen = live.build()
    look = seen.look(wished)
    plain, made = plan(wished, look), plan(wished, look, prune=True)
    gone = {one.change.ref for one in made.changes if isinstance(one.change, DeleteTopic)}
    assert gone <= {one.ref for one in plain.unmanaged}
    assert not any(is_protected(ref.name) for ref in gone)
    assert [one for one in made.changes if not isinstance(one.change, DeleteTopic)] == list(plain.changes)
    assert {one.ref for one in made.unmanaged} == {one.ref for one in plain.unmanaged} - gone


# protection


@pytest.mark.parametrize("name", ["heartbeats", "east.heartbeats", "mm2-offset-syncs.east.internal", "__reconciler"])
def test_what_mirrors_live_on_is_protected(name: str) -> None:
    assert is_protected(name)


def test_own_protection_names_its_pattern() -> None:
    assert str(protection_of("ledger.2024", [Protection("ledger.*")])).startswith("protected: 'ledger.*'")
    assert protection_of("orders", [Protection("ledger.*")]) is None


# a wish that shrank


def many(count: int, **more: object) -> Topology:
    return topology(cluster("east"), *(topic(f"t{number}", partitions=1) for number in range(count)), **more)  # type: ignore[arg-type]


NAMES = tuple(f"east/t{number}" for number in range(20))


@pytest.mark.parametrize(
    ("left", "refused"),
    [(20, False), (17, False), (16, False), (15, True), (1, True), (0, True)],
)
def test_more_than_a_fifth_and_at_least_five(left: int, refused: bool) -> None:
    made = guard(world("east"), many(left), before(*NAMES, east="id-of-east"))
    assert ("shrunken-wish" in codes(made)) == refused
    if refused:
        assert made.exit_code is ExitCode.BLOCKED
        assert not guard(world("east"), many(left), before(*NAMES, east="id-of-east"), Consent(shrink=True)).refused


def test_the_refusal_says_what_is_gone_since_when_and_how_to_agree() -> None:
    [refused] = guard(world("east"), many(4), before(*NAMES)).refused
    assert refused.reason.text.startswith("16 of 20 declared topics are gone since the apply of commit abc by ada: ")
    assert "--allow-shrink" in refused.todo


def test_all_flows_gone_is_too_many_however_few() -> None:
    wished = topology(topic("a", "east", partitions=1))
    assert codes(guard(world("east"), wished, before("east/a", flows=("x", "y")))) == {"shrunken-wish"}
    assert not guard(world("east"), wished, before("east/a", flows=("x",))).refused


def test_the_limit_is_the_environments_own() -> None:
    wished = replace(many(4), rules=Rules(shrink_limit=ShrinkLimit(percent=90)))
    assert not guard(world("east"), wished, before(*NAMES)).refused


def test_an_environment_that_declares_nothing_takes_nothing_away() -> None:
    seen = world()
    full = topology(topic("a", partitions=1), flow("east", "west", "a"))
    seen.apply(full)
    empty = topology(cluster("east"), cluster("west"))
    live = replace(seen.look(empty), mirrors={"west": seen.runner.observe("west")})
    made = guarded(plan(empty, live), empty, live, None, NO)
    assert ids(made) == ["stop:west"]
    assert codes(made) == {"shrunken-wish"}
    assert not known_part(made).plan.changes


def test_what_stays_on_a_cluster_that_is_declared_no_longer_is_named_once() -> None:
    """No list of the plan can hold it: nobody reads that cluster any more."""
    last = before("east/orders", "west/orders", "west/pay", east="id-of-east", west="id-of-west")
    seen, wished = world("east"), topology(topic("orders", "east", partitions=1))
    [note] = guard(seen, wished, last).notes
    assert note == (
        "cluster west is no longer declared, so it is no longer compared:"
        " what stays there is 2 topics declared until now (west/orders, west/pay)"
    )
    after = applied_now(wished, last, {"east": "id-of-east"}, before())
    assert not guard(seen, wished, after).notes


# first contact


def test_a_cluster_full_of_topics_is_only_checked() -> None:
    seen = world("east")
    seen.clusters["east"].put("theirs")
    wished = topology(topic("mine", partitions=1))
    made = guard(seen, wished, None)
    assert ids(made) == ["create:east/mine"]
    [refused] = made.refused
    assert (
        "has never been changed from this environment: id-of-east answers, it holds 1 topic (theirs)"
        in refused.reason.text
    )
    assert "clusters.east.cluster_id: id-of-east" in refused.todo
    assert "--first-contact" in refused.todo
    assert not known_part(made).plan.changes


@pytest.mark.parametrize(
    ("last", "declared", "consent"),
    [
        (before(east="id-of-east"), None, NO),
        (None, "id-of-east", NO),
        (None, None, Consent(first_contact=True)),
    ],
)
def test_who_vouches_for_a_cluster(last: Applied | None, declared: str | None, consent: Consent) -> None:
    seen = world("east")
    seen.clusters["east"].put("theirs")
    wished = topology(cluster("east", cluster_id=declared), topic("mine", partitions=1))
    assert not guard(seen, wished, last, consent).refused


@pytest.mark.parametrize("made", [cluster_id_of("plain", "east"), "sandbox-AAAAAAAAAAAAAA"])
def test_no_id_vouches_for_its_cluster_by_how_it_looks(made: str) -> None:
    """Anybody can give a cluster an id, also one that a sandbox of this or of an older release has."""
    seen = world("east")
    seen.clusters["east"].cluster_id = made
    wished = topology(topic("mine", partitions=1))
    assert not guard(seen, wished, None).refused, "nothing can be lost there"
    seen.clusters["east"].put("theirs")
    assert codes(guard(seen, wished, None)) == {"first-contact"}
    declared = topology(cluster("east", cluster_id=made), topic("mine", partitions=1))
    assert not guard(seen, declared, None).refused
    assert not guard(seen, declared, before(east="the-old-one")).refused


def test_an_empty_cluster_can_lose_nothing_but_one_that_hides_its_topics_can() -> None:
    seen, wished = world("east"), topology(topic("mine", partitions=1))
    assert not guard(seen, wished, None).refused
    seen.clusters["east"].put("theirs")
    seen.clusters["east"].hide("theirs")
    assert codes(guard(seen, wished, None)) == {"first-contact"}


def test_another_cluster_under_a_known_alias_is_reported_as_such() -> None:
    seen = world("east")
    seen.clusters["east"].put("theirs")
    [refused] = guard(seen, topology(topic("mine", partitions=1)), before(east="the-old-one")).refused
    assert "was the-old-one until now, and id-of-east answers" in refused.reason.text


def test_an_empty_cluster_in_the_place_of_a_known_one_is_reported_as_such() -> None:
    """Rebuilt, or a name that now leads elsewhere: making all topics anew there would hide it."""
    wished = topology(topic("orders", partitions=2))
    (refused,) = guard(world("east"), wished, before("east/orders", east="the-old-one")).refused
    assert refused.reason.text == "cluster east was the-old-one until now, and id-of-east answers: it holds no topic"
    assert not guard(
        world("east"), wished, before("east/orders", east="the-old-one"), Consent(first_contact=True)
    ).refused
    of_a_sandbox = world("east")
    of_a_sandbox.clusters["east"].cluster_id = "sandbox-new"
    made = guard(of_a_sandbox, wished, before("east/orders", east="sandbox-old"))
    assert codes(made) == {"first-contact"}


def test_looking_alone_needs_no_one_to_vouch() -> None:
    seen = world("east")
    seen.clusters["east"].put("mine", 1)
    assert guard(seen, topology(topic("mine", partitions=1)), None).exit_code is ExitCode.DONE


def test_other_clusters_continue() -> None:
    seen = world("east", "west")
    seen.clusters["west"].put("theirs")
    wished = topology(topic("mine", "east", partitions=1), topic("yours", "west", partitions=1))
    assert ids(known_part(guard(seen, wished, None)).plan) == ["create:east/mine"]


def test_a_mirror_that_writes_there_waits() -> None:
    seen = world()
    seen.clusters["west"].put("theirs")
    wished = topology(topic("a", partitions=1), flow("east", "west", "a"))
    kept = known_part(guard(seen, wished, None)).plan
    assert {name for one in kept.changes for name in clusters_of(one.change, wished)} == {"east"}


def test_a_record_no_one_may_read_is_noted_and_blocks_no_plan() -> None:
    seen = world("east")
    seen.clusters["east"].put("theirs")
    made = guard(seen, topology(topic("mine", partitions=1)), Unknown("its record on east", "not allowed"))
    assert not made.refused
    assert any("not allowed" in note for note in made.notes)


@given(st.lists(st.text(max_size=8), max_size=5), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_the_record_is_read_back_as_it_was_written(names: list[str], clusters: dict[str, str]) -> None:
    written = Applied("e", 5, "ada", "", clusters, tuple(names), ("f",))
    assert records.loads(records.dumps(written)) == written


def test_a_record_of_an_older_and_of_a_newer_version_is_read() -> None:
    written = Applied("e", 5, "ada", "", {"east": "id"}, ("east/a",), ("f",), "git.example/team/topics:environments/e")
    stored = json.loads(records.dumps(written))
    older = {name: value for name, value in stored.items() if name != "origin"}
    assert records.loads(json.dumps(older).encode()) == replace(written, origin="")
    assert records.loads(json.dumps({**stored, "of_tomorrow": 1}).encode()) == written


HERE, THERE = "git.example/one/topics:environments/test", "git.example/two/topics:environments/test"


@pytest.mark.parametrize(
    ("last", "here", "blocked"),
    [(THERE, HERE, True), (HERE, HERE, False), ("", HERE, False), (THERE, "", False)],
    ids=["another", "the same", "a record of earlier", "git does not tell"],
)
def test_an_environment_of_another_repository_is_left_alone_until_the_user_says_it_moved(
    last: str, here: str, blocked: bool
) -> None:
    """Both would share lock and records, and one would take the other's topics for its own."""
    wished, applied = topology(topic("orders", partitions=1)), replace(before(), origin=last)
    seen = world("east")
    made = from_here(seen.plan(wished), applied, here)
    for consent, code in ((NO, 3 if blocked else 2), (Consent(first_contact=True), 2)):
        found = guarded(made, wished, seen.look(wished), applied, consent)
        assert found.exit_code == code
        part = known_part(found)
        assert ids(part.plan) == ([] if code == 3 else ["create:east/orders"]), "not in part either"
    refused = [one for one in made.refused if one.reason.code == "other-repository"]
    assert all(last in one.reason.text and here in one.reason.text for one in refused)
    assert len(refused) == blocked
    again = from_here(unjudged(made), applied, last)
    assert not again.refused, "a saved plan is judged anew"
    empty = from_here(world("east").plan(topology(cluster("east"))), applied, here)
    assert not empty.refused, "who changes nothing harms nobody"


def test_a_plan_of_a_checkout_that_lacks_what_was_applied_says_so() -> None:
    wished, applied, seen = topology(topic("orders", partitions=1)), replace(before(), origin=HERE), world("east")
    made = seen.plan(wished)
    [note] = from_here(made, applied, HERE, newer=True).notes
    assert f"was of commit {applied.commit[:12]}, which this checkout at" in note
    assert applied.who in note
    assert from_here(made, applied, HERE).notes == made.notes
    nothing = world("east").plan(topology(cluster("east")))
    assert from_here(nothing, applied, HERE, newer=True).notes == nothing.notes, "nothing is taken back"


def test_a_lost_memory_is_reported_where_something_shows_that_there_was_one() -> None:
    wished = topology(
        topic("orders", "east", partitions=1), flow("east", "west", "orders"), flow("east", "zoo", "orders")
    )
    seen = world("east", "west", "zoo")
    assert not [note for note in guard(seen, wished, None).notes if "which clusters this environment changed" in note]
    seen.apply(wished)
    (note,) = [note for note in guard(seen, wished, None).notes if "which clusters this environment changed" in note]
    assert "cluster east, which keeps the record" in note
    assert "is on west, zoo" in note
    assert "cluster_id" in note
    assert not [
        note for note in guard(seen, wished, before()).notes if "which clusters this environment changed" in note
    ]


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"format_version": 2}', b"\xff"])
def test_any_other_record_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="no record of an apply"):
        records.loads(value)


def test_a_new_topic_like_one_that_left_git_gets_a_hint() -> None:
    seen = world("east")
    seen.clusters["east"].put("clicks", 6, retention_ms="60000")
    seen.clusters["east"].put("strange", 6, retention_ms="60000")
    wished = topology(topic("clickstream", partitions=6, configs={"retention.ms": "60000"}))
    [note] = [note for note in guard(seen, wished, before("east/clicks")).notes if "under another name" in note]
    assert note.startswith("east/clickstream is new and looks like east/clicks under another name")
    assert "records and readers stay behind on clicks" in note
    for last, other in ((None, wished), (before("east/clicks"), topology(topic("clickstream", partitions=5)))):
        assert not any("under another name" in note for note in guard(seen, other, last).notes)


def test_a_lower_limit_in_no_file_is_released_by_its_own_consent_alone() -> None:
    seen = world()
    seen.clusters["east"].put("orders", retention_ms="60000")
    seen.clusters["west"].put("east.orders")
    wished = topology(topic("orders"), flow("east", "west", "orders"))
    assert "undeclared-lower-limit" in codes(guard(seen, wished, None, Consent(True, True, True)))
    assert codes(guard(seen, wished, None, Consent(first_contact=True, lower_limits=True))) == set()
    blind = Unknown("its record on east", "no answer")
    assert codes(guard(seen, wished, blind, Consent(lower_limits=True))) == set()

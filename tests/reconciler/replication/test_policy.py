"""Remote names and the cycle rule, held against what MirrorMaker 2's own classes answer."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.replication.allowed import allowed
from reconciler.replication.mirrormaker_records import checkpoints_topic, offset_syncs_topic
from reconciler.replication.names import OWN_TOPICS
from reconciler.replication.policy import (
    INTERNAL,
    TopicSelector,
    canonical_policy,
    is_checkpoints_topic,
    is_cycle,
    is_heartbeats,
    is_mm2_internal_topic,
    make_policy,
    make_selector,
    original_topic,
    policy_word,
)
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "replication_policy.jsonl"
OLDER = GOLDEN.with_name("replication_policy_3_9.jsonl")
OLDER_CASES = [json.loads(line) for line in OLDER.read_text(encoding="utf-8").splitlines()]
CASES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def _only_separators_follow(case: dict[str, Any]) -> bool:
    """The one place where we know better: see DefaultReplicationPolicy."""
    _, found, rest = case["topic"].partition(case["separator"])
    return bool(found) and not rest.replace(case["separator"], "")


@pytest.mark.parametrize("policy", ["default", "identity"])
@pytest.mark.parametrize("separator", [".", "-", "--", "_"])
def test_names_are_those_of_mirrormaker_2(policy: str, separator: str) -> None:
    cases = [case for case in CASES if (case["policy"], case["separator"]) == (policy, separator)]
    assert len(cases) > 40
    ours = make_policy(policy, separator, "east")
    for case in cases:
        topic = case["topic"]
        assert ours.format_remote_topic("east", topic) == case["remote"], topic
        assert ours.is_internal_topic(topic) == case["internal"], topic
        assert is_checkpoints_topic(topic, separator) == case["checkpoints"], topic
        assert is_mm2_internal_topic(topic, separator) == case["mm2_internal"], topic
        assert checkpoints_topic("east", separator) == case["checkpoints_topic"]
        assert offset_syncs_topic("west", separator) == case["offset_syncs_topic"]
        if not _only_separators_follow(case):
            assert original_topic(ours, topic) == case["original"], topic
            assert is_heartbeats(ours, topic) == case["heartbeats"], topic
            assert ours.topic_source(topic) == case["source"], topic
            assert ours.upstream_topic(topic) == case["upstream"], topic


@pytest.mark.parametrize("policy", ["default", "identity"])
@pytest.mark.parametrize("separator", [".", "-", "--", "_"])
def test_the_older_rule_of_internal_topics_is_there_too(policy: str, separator: str) -> None:
    cases = [case for case in OLDER_CASES if (case["policy"], case["separator"]) == (policy, separator)]
    assert len(cases) > 40
    ours = make_policy(f"{policy}-before-4.0", separator, "east")
    for case in cases:
        topic = case["topic"]
        assert ours.format_remote_topic("east", topic) == case["remote"], topic
        assert ours.is_internal_topic(topic) == case["internal"], topic
        if not _only_separators_follow(case):
            assert ours.topic_source(topic) == case["source"], topic
            assert ours.upstream_topic(topic) == case["upstream"], topic
    assert {c["topic"] for c in cases if c["internal"]} > {c["topic"] for c in _newer(cases) if c["internal"]}


def _newer(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = {(case["policy"], case["separator"]) for case in cases}
    return [case for case in CASES if (case["policy"], case["separator"]) in keys]


def test_a_cycle_is_one_for_mirrormaker_2_and_for_us() -> None:
    for case in CASES:
        ours = is_cycle(make_policy(case["policy"], case["separator"], "east"), case["topic"], "west")
        assert ours == case["cycle"] or _only_separators_follow(case), case


def test_the_sources_own_alias_in_a_name_is_no_cycle() -> None:
    """Nothing copies a topic of east to east, so there it is a name that an application chose."""
    policy = make_policy("default", ".", "east")
    assert not is_cycle(policy, "east.orders", "west")
    assert not is_cycle(policy, "east.north.orders", "west")
    assert is_cycle(policy, "east.west.orders", "west")


def test_identity_names_never_reveal_a_cycle_but_heartbeats_do() -> None:
    policy = make_policy("identity", ".", "east")
    assert not is_cycle(policy, "west.orders", "west")
    assert is_cycle(policy, "west.heartbeats", "west")


def _selector(topics: list[str], exclude: list[str] | None = None) -> TopicSelector:
    return make_selector(topics, exclude or [], "default", ".", "east", "west")


def test_expressions_match_whole_names_and_exclusion_wins() -> None:
    selector = _selector(["orders", r"payments\..*"], [r".*\.scratch"])
    assert selector.why_not("orders") is None
    assert selector.why_not("payments.booked") is None
    assert selector.why_not("orders2") == "no pattern matches"
    assert selector.why_not("payments.scratch") == "excluded"


def test_alternatives_inside_an_expression_do_not_leak() -> None:
    assert _selector(["a|b"]).why_not("ab") == "no pattern matches"
    assert _selector(["a|b", "c"]).why_not("b") is None


def test_built_in_rules_hold_without_being_asked() -> None:
    selector = _selector([".*"])
    assert selector.why_not("__consumer_offsets") == "excluded"
    assert selector.why_not("orders.replica") == "excluded"
    assert selector.why_not("mm2-offset-syncs.west.internal") == "excluded"
    assert selector.why_not("west.checkpoints.internal") == "internal"
    assert selector.why_not("west.orders") == "cycle"
    assert selector.why_not("north.west.orders") == "cycle"
    assert selector.why_not("north.orders") is None
    assert selector.why_not("east.orders") is None


def test_no_expression_matches_nothing() -> None:
    assert _selector([]).why_not("orders") == "no pattern matches"


def test_remote_names_come_back_to_their_upstream() -> None:
    for policy, separator, topic in itertools.product(("default", "identity"), (".", "--"), ("a", "a.b", "heartbeats")):
        ours = make_policy(policy, separator, "east")
        remote = ours.format_remote_topic("east", topic)
        assert (ours.topic_source(remote), ours.upstream_topic(remote)) == ("east", topic)


@pytest.mark.usefixtures("own_policies")
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("defualt", "neither one of default, identity, default-before-4.0, "),
        ("no.such.module:Policy", "ModuleNotFoundError"),
        ("tests.support.policies:NoSuchClass", "AttributeError"),
        ("tests.support.policies:Incomplete", "lacks methods"),
        ("tests.support.policies:Leaving", "SystemExit: 2"),
    ],
)
def test_a_policy_that_cannot_be_used_says_why(policy: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_policy(policy, ".", "east")


@pytest.mark.parametrize("word", ["default", "identity"])
def test_the_words_for_older_policies_mean_their_old_paths(word: str) -> None:
    path = f"replication.policy:{word.capitalize()}ReplicationPolicyTo39"
    assert canonical_policy(f"{word}-before-4.0") == canonical_policy(path) == path
    assert policy_word(path) == f"{word}-before-4.0"
    assert make_policy(path, "_", "east") == make_policy(f"{word}-before-4.0", "_", "east")


@pytest.mark.parametrize("policy", ["default", "identity", "tests.support.policies:Suffixing"])
def test_other_policies_are_spelled_as_they_are_written(policy: str) -> None:
    assert canonical_policy(policy) == policy_word(policy) == policy


@pytest.mark.usefixtures("own_policies")
def test_a_policy_of_ones_own() -> None:
    policy = make_policy("tests.support.policies:Suffixing", ".", "east")
    assert policy.format_remote_topic("east", "orders") == "orders_from_east"
    assert is_cycle(policy, "orders_from_west", "west")


GADGETS = ["venv.__main__:X", "idlelib.idle:X", "typer.__main__:X", "unittest.__main__:X", "antigravity:X"]


@pytest.mark.parametrize("policy", [*GADGETS, "tests.support.policies:Suffixing"])
def test_nothing_is_imported_that_only_the_topology_names(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", pytest.fail)
    with pytest.raises(ValueError, match=f"RECONCILER_ALLOW=policy:{policy}"):
        make_policy(policy, ".", "east")


@pytest.mark.parametrize(
    "word", ["policy:tests.support.policies:Incomplete", "host:*", "policy:tests.support.policies"]
)
def test_what_is_allowed_for_something_else_is_not_imported(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.replication.allowed._Permitted.listed", allowed({"RECONCILER_ALLOW": word}))
    with pytest.raises(ValueError, match="is not imported"):
        make_policy("tests.support.policies:Suffixing", ".", "east")


def test_an_installed_package_may_declare_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tmp_path / "acme-1.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    points = "[reconciler.naming_policies]\nsuffixing = tests.support.policies:Suffixing\n"
    (declared / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_policy("tests.support.policies:Suffixing", ".", "east").is_internal_topic("__x")
    with pytest.raises(ValueError, match="is not imported"):
        make_policy("tests.support.policies:Incomplete", ".", "east")


def test_a_hand_over_is_believed_because_apply_asked_before_it() -> None:
    selector = make_selector(["x"], [], "tests.support.policies:Suffixing", ".", "east", "west", trusted=True)
    assert selector.remote_name("x") == "x_from_east"


@pytest.mark.parametrize("policy", ["default", "identity", "default-before-4.0", "identity-before-4.0"])
def test_topics_of_mirrors_never_travel_whatever_prefix_another_environment_chose(policy: str) -> None:
    flow = make_selector([".*"], [], policy, ".", "east", "west")
    for name in OWN_TOPICS:
        assert flow.why_not(name) is not None
        assert flow.why_not(f"team-a.{name}") == INTERNAL
    assert flow.why_not("team-a.mirror_status") is None

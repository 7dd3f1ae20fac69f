"""Rules between clusters, topics, flows and mirrors. tests/golden/messages.md has one case of each; here are edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.environment.load import load
from reconciler.environment.validate.environment import check
from reconciler.environment.yaml.locations import Place, Places
from reconciler.errors import Problem, TopologyError
from reconciler.model.environment.flow_settings import ConfigSync, Groups
from reconciler.model.environment.topology import Cluster, Mirror, TopicDefaults, Topology
from reconciler.replication.allowed import Allowed
from reconciler.replication.handover import Naming
from tests.support.builders import cluster, flow, topic, topology

IDENTITY = Naming("identity")
DASHED = Naming("default", "-")


def _codes(wished: Topology) -> list[str]:
    return [problem.code for problem in check(wished)]


def _only(wished: Topology) -> Problem:
    problems = check(wished)
    assert len(problems) == 1, list(map(str, problems))
    return problems[0]


def test_a_sound_topology_has_no_problem() -> None:
    wished = topology(
        topic("orders", "east", "west", partitions=3),
        topic("east-only", "east"),
        flow("east", "west", "orders", r"payments\..*"),
        flow("west", "east", "orders"),
    )
    assert check(wished) == ()


@pytest.mark.parametrize(
    "other",
    [
        cluster("west", bootstrap_servers=("B:9092",)),
        cluster("west", bootstrap_servers=("c:9092", "a:9092")),
        cluster("west", bootstrap_servers=("c:9092",), cluster_id="1234"),
    ],
)
def test_one_cluster_under_two_aliases(other: Cluster) -> None:
    east = cluster("east", bootstrap_servers=("a:9092", "b:9092"), cluster_id="1234")
    assert _only(topology(east, other)).code == "same-cluster-twice"


def test_the_same_host_with_other_ports_is_another_cluster() -> None:
    east, west = (cluster(name, bootstrap_servers=(f"127.0.0.1:{port}",)) for name, port in [("e", 1), ("w", 2)])
    assert check(topology(east, west)) == ()


@pytest.mark.parametrize("name", [".", "..", "a/b", "a b", "é", "a" * 250, ""])
def test_topic_names_kafka_refuses(name: str) -> None:
    assert _only(topology(topic(name))).code == "bad-topic-name"


def test_remote_names_that_would_be_too_long() -> None:
    wished = topology(topic("a" * 245, "east"), flow("east", "west"))
    assert _only(wished).code == "bad-topic-name"
    assert check(topology(topic("a" * 244, "east"), flow("east", "west"))) == ()


@pytest.mark.parametrize("name", ["__consumer_offsets", "__mirror_status", "a.__mirror_offsets"])
def test_internal_topics_are_not_declared(name: str) -> None:
    assert _only(topology(topic(name))).code == "internal-topic"


@pytest.mark.parametrize("key", ["cleanup.policy", "retention.ms", "retention.bytes"])
def test_own_topics_cannot_be_made_to_forget(key: str) -> None:
    assert _only(topology(replace(cluster("east"), own_configs={key: "1"}), topic("orders"))).code == "bad-value"
    assert check(topology(replace(cluster("east"), own_configs={"segment.bytes": "1048576"}), topic("orders"))) == ()


class TestMetricNames:
    def test_on_other_clusters_they_do_not_meet(self) -> None:
        assert check(topology(topic("a.b", "east"), topic("a_b", "west"))) == ()

    def test_a_remote_topic_and_a_declared_one(self) -> None:
        wished = topology(topic("orders", "east"), topic("east_orders", "west"), flow("east", "west", "orders"))
        problem = _only(wished)
        assert problem.code == "metric-name-collision"
        assert "east.orders by east-to-west, east_orders" in problem.what

    def test_two_remote_topics(self) -> None:
        wished = topology(
            topic("a.b", "east"), topic("a_b", "north"),
            flow("east", "west", "a.b", naming=IDENTITY), flow("north", "west", "a_b", naming=IDENTITY),
        )  # fmt: skip
        assert "metric-name-collision" in _codes(wished)

    def test_after_two_hops(self) -> None:
        wished = topology(
            topic("orders", "a"), topic("b.a_orders", "c"), flow("a", "b", "orders"), flow("b", "c", r"a\.orders")
        )
        assert "b.a.orders" in _only(wished).what


class TestRemoteNames:
    def test_two_sources_with_identity_naming(self) -> None:
        wished = topology(flow("a", "c", naming=IDENTITY), flow("b", "c", naming=IDENTITY))
        assert _only(wished).code == "remote-name-collision"

    def test_however_many_flows_there_is_one_message_with_the_place_of_each(self) -> None:
        lines = [f"  f{n}: {{source: s{n}, target: hub, topics: [{'o.*' if n % 2 else '.*'}]}}" for n in range(6)]
        text = "\n".join(
            [
                "clusters:",
                *(f"  {name}: {{bootstrap_servers: [{name}:9092]}}" for name in (*(f"s{n}" for n in range(6)), "hub")),
                "flows:",
                *(line.replace("}", ", naming: {policy: identity}}") for line in lines),
            ]
        )
        with pytest.raises(TopologyError) as caught:
            load({"a.yaml": text}, "test")
        (problem,) = caught.value.problems
        assert problem.where.line == 15
        assert all(f"f{n} (a.yaml:{10 + n}:" in problem.what for n in range(5)), problem.what
        assert " and f5 all write to hub/o" in problem.what

    def test_flows_that_meet_in_different_topics_are_distinguished(self) -> None:
        wished = topology(
            flow("a", "x", "one", "two", naming=IDENTITY),
            flow("b", "x", "two", "three", naming=IDENTITY),
            flow("c", "x", "three", naming=IDENTITY),
        )
        told = [problem.what for problem in check(wished)]
        assert len(told) == 2
        assert "a-to-x" in told[0]
        assert "b-to-x both write to x/two" in told[0]
        assert "b-to-x" in told[1]
        assert "c-to-x both write to x/three" in told[1]

    def test_two_sources_with_disjoint_topics(self) -> None:
        wished = topology(flow("a", "c", "a-.*", naming=IDENTITY), flow("b", "c", "b-.*", naming=IDENTITY))
        assert check(wished) == ()

    def test_two_sources_with_default_naming(self) -> None:
        assert check(topology(flow("a", "c"), flow("b", "c"))) == ()

    def test_two_flows_of_one_pair_over_the_same_topics(self) -> None:
        wished = topology(flow("a", "b", "orders.*", name="one"), flow("a", "b", ".*new", name="two"))
        assert "b/a.ordersnew" in _only(wished).what
        apart = topology(
            flow("a", "b", "orders.*", name="one"), flow("a", "b", ".*new", exclude_topics=("orders.*",), name="two")
        )
        assert check(apart) == ()

    def test_separators_that_make_two_names_one(self) -> None:
        """Alias a.b with topic c is alias a with topic b.c."""
        assert "remote-name-collision" in _codes(topology(flow("a.b", "x", "c"), flow("a", "x", r"b\.c")))
        assert "remote-name-collision" not in _codes(topology(flow("a.b", "x", "c"), flow("a", "x", r"b\.d")))

    def test_default_naming_can_meet_identity_naming(self) -> None:
        meeting = topology(flow("a", "c", "orders"), flow("b", "c", r"a\..*", naming=IDENTITY))
        assert "c/a.orders" in _only(meeting).what
        assert check(topology(flow("a", "c", "orders"), flow("b", "c", "orders", naming=IDENTITY))) == ()

    def test_without_automaton_an_example_decides(self) -> None:
        real = topology(flow("a", "c", r"o\Brders", naming=IDENTITY), flow("b", "c", "o.*", naming=IDENTITY))
        assert "both write" in _only(real).what
        few = topology(flow("a", "c", r"o\brders", naming=IDENTITY), flow("b", "c", "o.*", naming=IDENTITY))
        assert check(few) == (), "each of the few names that both may have is tried"
        unclear = topology(flow("a", "c", r"o\brd.*", naming=IDENTITY), flow("b", "c", "o.*", naming=IDENTITY))
        assert "no proof that the flows a-to-c" in _only(unclear).what
        assert r"(none is possible with o\brd.*)" in _only(unclear).what

    def test_a_declared_topic_that_a_flow_makes(self) -> None:
        assert "east.orders" in _only(topology(topic("east.orders", "west"), flow("east", "west", "orders"))).what
        assert check(topology(topic("east.orders", "west"), flow("east", "west", "returns"))) == ()

    def test_a_topic_declared_on_both_sides_of_an_identity_flow(self) -> None:
        both = topology(topic("orders", "east", "west"), flow("east", "west", "orders", naming=IDENTITY))
        assert check(both) == ()
        assert check(topology(topic("orders", "east"), flow("east", "west", "orders", naming=IDENTITY))) == ()
        only_there = topology(topic("orders", "west"), flow("east", "west", "orders", naming=IDENTITY))
        assert _only(only_there).code == "remote-name-collision"

    def test_one_bad_field_does_not_hide_what_its_neighbours_name(self) -> None:
        text = """
clusters: {east: {bootstrap_servers: [a:1]}}
topics: {a: {clusters: [eats], partitions: many}}
flows: {f: {source: esat, target: east, topics: ["("], lane: 2}}
"""
        with pytest.raises(TopologyError) as caught:
            load({"t.yaml": text}, "e")
        codes = [problem.code for problem in caught.value.problems]
        assert codes.count("unknown-cluster") == 2
        assert "bad-regex" in codes


class TestReplicas:
    def test_defaults_of_the_cluster_count(self) -> None:
        few = cluster("east", defaults=TopicDefaults(replication_factor=1))
        strict = TopicDefaults(replication_factor=2, configs={"min.insync.replicas": "2"})
        assert _codes(topology(few, topic("a", configs={"min.insync.replicas": "2"}))) == ["too-few-replicas"]
        assert _codes(topology(cluster("east", defaults=strict), topic("a", replication_factor=1))) == [
            "too-few-replicas"
        ]
        assert check(topology(cluster("east", defaults=strict), topic("a"))) == ()

    def test_wrong_defaults_are_reported_once(self) -> None:
        wrong = cluster("east", defaults=TopicDefaults(replication_factor=1, configs={"min.insync.replicas": "2"}))
        assert _codes(topology(wrong, topic("a"), topic("b"))) == ["too-few-replicas"]

    def test_without_a_factor_the_broker_decides_and_plan_sees(self) -> None:
        assert check(topology(topic("a", configs={"min.insync.replicas": "2"}))) == ()


class TestExpressions:
    @pytest.mark.parametrize("text", ["orders,returns", "a{250}", "é", "(?!)", "a^b"])
    def test_no_legal_name_matches(self, text: str) -> None:
        assert _only(topology(flow("east", "west", "orders", text))).code == "regex-never-matches"

    @pytest.mark.parametrize("text", ["orders|a,b", "(a|b c)x", "(a|,b)+"])
    def test_a_part_matches_no_legal_name(self, text: str) -> None:
        assert _only(topology(flow("east", "west", "orders", text))).code == "regex-never-matches"

    @pytest.mark.parametrize("text", ["a{1,2}", "a,?b", "a[,;]?b", "(a|b)( old)*", "(?!a,b)c.*"])
    def test_a_part_that_may_be_left_out_is_no_fault(self, text: str) -> None:
        assert check(topology(flow("east", "west", text))) == ()

    def test_what_is_to_be_kept_back_must_match_something(self) -> None:
        kept = flow("east", "west", "a", exclude_topics=("b,c",), configs=ConfigSync(exclude=("x.*, y.*",)))
        assert _codes(topology(kept)) == ["regex-never-matches"] * 2

    def test_a_list_of_groups_in_one_text(self) -> None:
        texts = ("a, b", "a[,]b", r"a\,b", "a{1,2}", "[],]x")
        wished = flow("east", "west", "a", groups=Groups(texts, ("c,d",)))
        assert _codes(topology(wished)) == ["regex-with-comma"] * 2

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("__consumer_offsets", "exclusions"),
            (r"mm2-offsets\..*\.internal", "exclusions"),
            ("scratch-.*", "exclusions"),
            (r".*\.checkpoints\.internal", "internal"),
            (r"\..*", "internal"),
            (r"west\..*", "cycle"),
            (r"north\.west\..*", "cycle"),
        ],
    )
    def test_all_that_matches_is_held_back(self, text: str, rule: str) -> None:
        problem = _only(topology(flow("east", "west", "orders", text, exclude_topics=("scratch.*",))))
        assert problem.code == "regex-without-effect"
        assert rule in problem.what

    def test_a_name_that_begins_with_its_own_clusters_alias_is_a_name_as_any_other(self) -> None:
        assert check(topology(flow("east", "west", r"east\..*"))) == ()

    def test_identity_naming_has_no_cycle_rule(self) -> None:
        assert check(topology(flow("east", "west", r"west\..*", naming=IDENTITY))) == ()

    def test_expressions_of_groups_and_configs_are_judged_too(self) -> None:
        wished = flow("east", "west", "a", groups=Groups(("[",), ("*",)), configs=ConfigSync(exclude=(r"\p{L}",)))
        assert _codes(topology(wished)) == ["bad-regex"] * 3


class TestMirrors:
    def test_a_mirror_may_carry_flows_to_several_clusters(self) -> None:
        flows = [flow("a", "b"), flow("a", "c")]
        assert check(topology(*flows, Mirror("all", ("a-to-b", "a-to-c")))) == ()

    def test_a_flow_in_two_mirrors(self) -> None:
        wished = topology(flow("a", "b"), Mirror("one", ("a-to-b",)), Mirror("two", ("a-to-b",)))
        assert _codes(wished) == ["flow-in-two-mirrors"]

    def test_an_unknown_flow_names_the_nearest(self) -> None:
        wished = topology(flow("a", "b"), Mirror("one", ("a-to-b", "a-to-d")))
        assert "Perhaps you mean a-to-b" in _only(wished).todo


def test_known_clusters_are_found_without_a_walk_over_every_entry() -> None:
    class Unwalkable(dict[tuple[str, str], Place]):
        def __iter__(self) -> Iterator[tuple[str, str]]:
            raise AssertionError("ten thousand topics, each with a walk over all of them, take half a minute")

    wished = topology(topic("orders", "east", "west"), flow("east", "west", "orders"))
    assert check(wished, Places(Unwalkable())) == ()


@pytest.mark.usefixtures("own_policies")
class TestPolicies:
    @pytest.mark.parametrize(
        "policy", ["tests.support.policies:Failing", "tests.support.policies:Incomplete", "no.such:Thing"]
    )
    def test_one_that_does_not_work(self, policy: str) -> None:
        assert "bad-policy" in _codes(topology(flow("a", "b", naming=Naming(policy)), topic("x", "a")))

    def test_one_that_only_the_topology_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("reconciler.replication.allowed._Permitted.listed", Allowed())
        monkeypatch.setattr("importlib.import_module", pytest.fail)
        problem = _only(topology(flow("a", "b", naming=Naming("venv.__main__:X")), topic("x", "a")))
        assert problem.code == "bad-policy"
        assert "RECONCILER_ALLOW=policy:venv.__main__:X" in problem.what

    def test_one_that_ends_the_program(self) -> None:
        wished = topology(flow("a", "b", naming=Naming("tests.support.policies:LeavingLater")), topic("x", "a"))
        assert "bad-policy" in _codes(wished)

    def test_one_that_works(self) -> None:
        wished = topology(flow("a", "b", naming=Naming("tests.support.policies:Suffixing")), topic("x", "a"))
        assert check(wished) == ()

    def test_loops_are_found_with_the_declared_topics(self) -> None:
        forgetful = Naming("tests.support.policies:Forgetful")
        wished = topology(flow("a", "b", "x.*", naming=forgetful), flow("b", "a", "x.*", naming=forgetful))
        assert "mirror-loop" in _codes(wished)


def test_loops_say_possible_where_they_are_not_certain() -> None:
    flows = [flow("a", "b", r"o\brd.*", naming=IDENTITY), flow("b", "a", "o.*", naming=IDENTITY)]
    problem = _only(topology(*flows))
    assert problem.code == "mirror-loop"
    assert problem.what.startswith("possible mirror loop")
    assert r"o\brd.*" in problem.why


def test_active_active_with_different_separators_is_a_loop() -> None:
    assert "mirror-loop" in _codes(topology(flow("a", "b"), flow("b", "a", naming=DASHED)))

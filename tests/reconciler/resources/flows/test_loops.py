"""No record comes back to a cluster it has been on: proved, or shown with an example that is real."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.environment.topology import Flow
from reconciler.replication.handover import Naming
from reconciler.resources.flows.loops import Loop, find_loops
from reconciler.resources.flows.names.carried import FlowNaming, travel_of
from reconciler.resources.flows.provenance_proof import Unproved
from tests.support.builders import flow

DEFAULT = Naming()
IDENTITY = Naming("identity")


def _travels(flows: Iterable[Flow]) -> list[FlowNaming]:
    travels = [travel_of(one) for one in flows]
    return [travel for travel in travels if travel is not None]


def _find(*flows: Flow, topics: dict[str, list[str]] | None = None) -> tuple[Loop | Unproved, ...]:
    return find_loops(_travels(flows), topics or {})


def _loop(*flows: Flow, topics: dict[str, list[str]] | None = None) -> Loop:
    found = _find(*flows, topics=topics)
    assert len(found) == 1
    assert isinstance(found[0], Loop)
    return found[0]


def _pairs(*clusters: str, naming: Naming = DEFAULT) -> list[Flow]:
    return [flow(one, other, naming=naming) for one, other in itertools.permutations(clusters, 2)]


@pytest.mark.parametrize(
    "flows",
    [
        pytest.param([flow("a", "b")], id="active-passive"),
        pytest.param([flow("a", "b", naming=IDENTITY)], id="active-passive identity"),
        pytest.param(_pairs("a", "b"), id="active-active"),
        pytest.param([flow("a", "c"), flow("b", "c")], id="fan-in"),
        pytest.param([flow("a", "b"), flow("b", "c"), flow("c", "a")], id="ring"),
        pytest.param([flow("hub", x) for x in "abc"] + [flow(x, "hub") for x in "abc"], id="hub and spoke"),
        pytest.param(_pairs(*"abcde"), id="full mesh"),
        pytest.param(_pairs("a", "b", naming=Naming("default", "--")), id="other separator"),
        pytest.param([flow("a", "b", "a-.*", naming=IDENTITY), flow("b", "a", "b-.*", naming=IDENTITY)], id="disjoint"),
        pytest.param(
            [flow("a", "b", "o.*", naming=IDENTITY), flow("b", "a", naming=IDENTITY, exclude_topics=("o.*",))],
            id="disjoint by exclusion",
        ),
        pytest.param(
            [flow("a", "b", r"(?!b\.).*", naming=IDENTITY), flow("b", "a", r"b\..*", naming=IDENTITY)],
            id="disjoint by a look ahead",
        ),
        pytest.param(
            [
                flow("a", "b", "(x|y).*", naming=IDENTITY),
                flow("b", "c", "(x|z).*", naming=IDENTITY),
                flow("c", "a", "(y|z).*", naming=IDENTITY),
            ],
            id="ring whose expressions have names in common by twos only",
        ),
        pytest.param(
            [flow("a", "b", "heartbeats", naming=IDENTITY), flow("b", "a", ".*heartbeats", naming=IDENTITY)],
            id="heartbeats keep their path with identity naming",
        ),
    ],
)
def test_no_record_comes_back(flows: list[Flow]) -> None:
    assert _find(*flows) == ()


def test_identity_both_ways_is_a_loop_with_an_example_hop_by_hop() -> None:
    loop = _loop(flow("a", "b", "orders", naming=IDENTITY), flow("b", "a", "o.*", naming=IDENTITY))
    assert str(loop) == "a/orders -(a-to-b)-> b/orders -(b-to-a)-> a/orders"
    assert loop.doubtful == ()


def test_the_example_is_a_declared_topic_where_one_fits() -> None:
    flows = _pairs("a", "b", naming=IDENTITY)
    assert "a/zebras -" in str(_loop(*flows, topics={"a": ["__hidden", "zebras"]}))


def test_a_ring_of_identity_names_finds_the_name_all_expressions_share() -> None:
    loop = _loop(
        flow("a", "b", "o.*", naming=IDENTITY),
        flow("b", "c", ".*s", naming=IDENTITY),
        flow("c", "a", ".rder.", naming=IDENTITY),
    )
    assert {hop.before for hop in loop.hops} == {"orders"}


@pytest.mark.parametrize(
    ("there", "back", "comes_back_as"),
    [
        (Naming("default", "."), Naming("default", "-"), "b-a.a"),
        (Naming("default", "."), IDENTITY, "a.a"),
    ],
)
def test_mixed_naming_forgets_the_path(there: Naming, back: Naming, comes_back_as: str) -> None:
    loop = _loop(flow("a", "b", naming=there), flow("b", "a", naming=back))
    assert loop.hops[-1].after == comes_back_as


def test_mixed_naming_passes_where_the_expressions_keep_it_apart() -> None:
    assert _find(flow("a", "b", "orders"), flow("b", "a", "customers", naming=IDENTITY)) == ()


@pytest.mark.parametrize(
    ("east", "west", "separator"), [("us.east", "us.west", "."), ("a-", "b-", "--"), ("x.", "y", "..")]
)
def test_an_alias_that_cannot_be_read_back_defeats_the_cycle_rule(east: str, west: str, separator: str) -> None:
    naming = Naming("default", separator)
    assert _find(flow(east, west, naming=naming, name="1"), flow(west, east, naming=naming, name="2"))


def test_loops_that_share_no_flow_are_all_reported() -> None:
    flows = [*_pairs("a", "b", naming=IDENTITY), *_pairs("c", "d", naming=IDENTITY), flow("a", "c")]
    assert len(_find(*flows)) == 2


def test_an_expression_without_automaton_is_doubtful_until_an_example_is_real() -> None:
    back = flow("b", "a", "ab.*", naming=IDENTITY)
    real = _loop(flow("a", "b", r"a\Bb.*", naming=IDENTITY), back)
    assert real.doubtful == ()
    doubtful = _loop(flow("a", "b", r"a\bb.*", naming=IDENTITY), back)
    assert doubtful.doubtful == (r"a\bb.*",)
    assert str(doubtful) == "a/... -(a-to-b)-> b/... -(b-to-a)-> a/...", "no name that the expressions do not match"


@pytest.mark.parametrize(
    "text",
    [
        "^(?!recommendations$).*",
        "(?!recommendations$).*",
        "orders|(?!recommendations$)r.*",
        "(?!recommendations$).*s|orders",
        r"rec\bommendations|o.*",
    ],
)
def test_one_name_that_only_the_way_back_carries_is_no_loop(text: str) -> None:
    """The other side has few names, and each is tried by the real rules where an expression has no automaton."""
    assert _find(flow("a", "b", text, naming=IDENTITY), flow("b", "a", "recommendations", naming=IDENTITY)) == ()
    back = flow("b", "a", "recommendations|orders", naming=IDENTITY)
    there = flow("a", "b", text, "orders", naming=IDENTITY)
    assert "a/orders -" in str(_loop(there, back))


@pytest.mark.usefixtures("own_policies")
def test_custom_policies_are_simulated() -> None:
    def custom(name: str) -> list[Flow]:
        return _pairs("a", "b", naming=Naming(f"tests.support.policies:{name}"))

    assert _find(*custom("Suffixing")) == ()
    loop = _loop(*custom("Forgetful"), topics={"a": ["orders"]})
    assert str(loop) == "a/orders -(a-to-b)-> b/orders_from_a -(b-to-a)-> a/orders_from_a_from_b"


@pytest.mark.slow
def test_a_search_without_end_is_given_up_and_reported() -> None:
    namings = itertools.cycle([Naming("default", "."), Naming("default", "-")])
    flows = [
        flow(one, other, f"(?!.*{other}).*x.*y.*z", naming=next(namings))
        for one, other in itertools.permutations("abcdefghi", 2)
    ]
    assert any(isinstance(one, Unproved) for one in _find(*flows))


_expressions = st.sampled_from(
    ["a", "b", "a.*", ".*b", "[ab]+", ".*", r"x\..*", r".*\.a", "..", "(?!a).*", "heartbeats"]
)
_namings = st.sampled_from([Naming(), Naming(), IDENTITY, IDENTITY, Naming("default", "-")])
_edges = st.lists(
    st.tuples(
        st.sampled_from(list(itertools.permutations("xyz", 2))),
        st.lists(_expressions, min_size=1, max_size=2),
        st.lists(_expressions, max_size=1),
        _namings,
    ),
    min_size=2,
    max_size=5,
)
SAMPLES = ["".join(word) for size in (1, 2, 3) for word in itertools.product("ab.-x", repeat=size)] + ["heartbeats"]
TOPICS = [name for name in SAMPLES if name not in (".", "..")]


@pytest.mark.slow
@given(_edges)
def test_the_proof_agrees_with_trying_all_short_names(
    edges: list[tuple[tuple[str, str], list[str], list[str], Naming]],
) -> None:
    flows = [
        flow(source, target, *topics, exclude_topics=tuple(exclude), naming=naming, name=f"f{index}")
        for index, ((source, target), topics, exclude, naming) in enumerate(edges)
    ]
    travels = {travel.flow.name: travel for travel in _travels(flows)}
    found = find_loops(travels.values(), {})
    for loop in found:
        assert isinstance(loop, Loop)
        assert loop.hops[0].source == loop.hops[-1].target
        for hop in loop.hops:
            selector = travels[hop.flow].selector
            assert selector.why_not(hop.before) is None
            assert selector.remote_name(hop.before) == hop.after
    if not found:
        assert not _comes_back(list(travels.values()))


def _comes_back(travels: list[FlowNaming]) -> bool:
    waiting: list[tuple[str, str, tuple[str, ...]]] = [(one, name, (one,)) for one in "xyz" for name in TOPICS]
    while waiting:
        cluster, name, path = waiting.pop()
        for travel in travels:
            if travel.flow.source == cluster and travel.selector.why_not(name) is None:
                if travel.flow.target in path:
                    return True
                after = travel.selector.remote_name(name)
                waiting.append((travel.flow.target, after, (*path, travel.flow.target)))
    return False

"""Provenance: what is accepted never doubles a record, and what does not double one is accepted. The other opinion is a
model in which every record is carried until nothing moves, by the very rule the mirror uses."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.record_work.provenance_header import carried

from reconciler.environment.validate.environment import check
from reconciler.model.environment.flow_settings import Carry
from reconciler.model.environment.topology import Flow
from reconciler.replication.handover import Naming
from tests.support.builders import flow, topology

IDENTITY = Naming("identity")
LOCAL, FORWARD = Carry.LOCAL, Carry.FORWARD
ABOUT_RECORDS = {"mirror-loop", "mirror-loop-unproved", "remote-name-collision", "records-doubled"}
NAMES = ("orders", "pay")


def _flow(source: str, target: str, *topics: str, carry: Carry | None = FORWARD, name: str | None = None) -> Flow:
    return flow(source, target, *(topics or ("orders",)), naming=IDENTITY, provenance=carry, name=name)


def _codes(flows: Iterable[Flow]) -> set[str]:
    return {problem.code for problem in check(topology(*flows))} & (ABOUT_RECORDS | {"records-doubled-unproved"})


def _both_ways(*pairs: str, carry: Carry = FORWARD) -> list[Flow]:
    return [_flow(*way, carry=carry) for pair in pairs for way in (pair, pair[::-1])]


@pytest.mark.parametrize(
    "flows",
    [
        pytest.param(_both_ways("ab"), id="two clusters"),
        pytest.param(_both_ways("ab", carry=LOCAL), id="two clusters, local"),
        pytest.param([_flow("a", "b"), _flow("b", "c"), _flow("c", "a")], id="ring"),
        pytest.param(_both_ways("ab", "bc", "ca", carry=LOCAL), id="mesh of three, local"),
        pytest.param(
            [_flow(*way, carry=LOCAL) for way in itertools.permutations("abcdef", 2)], id="mesh of six, local"
        ),
        pytest.param(_both_ways("ha", "hb", "hc", "hd"), id="hub and spoke"),
        pytest.param(_both_ways("ab", "bc", "cd"), id="chain"),
        pytest.param([_flow("a", "x"), _flow("b", "x")], id="fan-in under one name"),
        pytest.param([_flow("a", "b", "orders"), _flow("b", "a", "pay", carry=None)], id="disjoint without"),
    ],
)
def test_accepted(flows: list[Flow]) -> None:
    assert _codes(flows) == set()
    assert not _doubles(flows)


@pytest.mark.parametrize(
    ("flows", "code"),
    [
        ([_flow("a", "b"), _flow("b", "a", carry=None)], "mirror-loop"),
        ([_flow("a", "b"), _flow("b", "c", carry=None), _flow("c", "a")], "mirror-loop"),
        (_both_ways("ab", "bc", "ca"), "records-doubled"),
        ([_flow("a", "b"), _flow("a", "c"), _flow("b", "d"), _flow("c", "d")], "records-doubled"),
        ([_flow("a", "b"), _flow("a", "b", name="again")], "records-doubled"),
        ([_flow("a", "b"), _flow("a", "b", carry=None, name="again")], "remote-name-collision"),
        ([_flow("a", "x"), _flow("b", "x", carry=None)], "remote-name-collision"),
        (
            [_flow("z", "a", carry=None), _flow("z", "b", carry=None), _flow("a", "c"), _flow("b", "c")],
            "records-doubled",
        ),
    ],
)
def test_refused(flows: list[Flow], code: str) -> None:
    assert code in _codes(flows)


def test_the_reason_names_what_lacks_and_both_ways() -> None:
    half = topology(_flow("a", "b"), _flow("b", "a", carry=None))
    (problem,) = (one for one in check(half) if one.code == "mirror-loop")
    assert "give b-to-a provenance, too" in str(problem).lower()
    triangle = topology(_flow("a", "b"), _flow("b", "c"), _flow("a", "c"))
    (twice,) = (one for one in check(triangle) if one.code == "records-doubled")
    assert "records of a/orders would arrive on c twice: by a-to-c, and by a-to-b, then b-to-c" in twice.what


def test_default_naming_needs_no_provenance() -> None:
    codes = {problem.code for problem in check(topology(flow("a", "b", provenance=LOCAL)))}
    assert codes == {"provenance-naming"}


_edges = st.lists(
    st.tuples(
        st.sampled_from(list(itertools.permutations("abcd", 2))),
        st.sampled_from([("orders",), ("pay",), (".*",)]),
        st.sampled_from([LOCAL, FORWARD, FORWARD, None]),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.slow
@given(_edges)
def test_the_proof_agrees_with_carrying_records_until_nothing_moves(
    edges: list[tuple[tuple[str, str], tuple[str, ...], Carry | None]],
) -> None:
    flows = [_flow(*way, *topics, carry=carry, name=f"f{n}") for n, (way, topics, carry) in enumerate(edges)]
    found = _codes(flows)
    assert "records-doubled-unproved" not in found
    assert bool(found) == (_doubles(flows) or _mixes_without_header(flows))


def _doubles(flows: Sequence[Flow]) -> bool:
    """Does any record come twice to one cluster, the one where it was written included?"""
    clusters = sorted({cluster for one in flows for cluster in (one.source, one.target)})
    return any(_comes_twice(flows, origin, topic) for origin in clusters for topic in NAMES)


def _comes_twice(flows: Sequence[Flow], origin: str, topic: str) -> bool:
    """Follows one record and all its copies; the header is a tuple of cluster names."""
    waiting: deque[tuple[str, tuple[bytes, ...]]] = deque([(origin, ())])
    seen = {origin}
    while waiting:
        here, path = waiting.popleft()
        for one in flows:
            if one.source != here or not any(text in (".*", topic) for text in one.topics):
                continue
            after = path
            if one.provenance is not None:
                if not carried(path, here.encode(), one.target.encode(), one.provenance.value):
                    continue
                after = (*path, here.encode())
            if one.target in seen:
                return True
            seen.add(one.target)
            waiting.append((one.target, after))
    return False


def _mixes_without_header(flows: Sequence[Flow]) -> bool:
    """Two flows to one topic, of which one does not say where its records are from: refused whatever they carry."""
    pairs = ((one, other) for one, other in itertools.combinations(flows, 2) if one.target == other.target)
    return any(
        (one.provenance is None or other.provenance is None)
        and any(all(any(text in (".*", topic) for text in each.topics) for each in (one, other)) for topic in NAMES)
        for one, other in pairs
    )

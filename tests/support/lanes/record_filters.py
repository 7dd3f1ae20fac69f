"""Strategies for tests of records."""

from __future__ import annotations

from hypothesis import strategies as st

from reconciler.replication.expressions.record_filter import (
    AllOf,
    AnyOf,
    Equals,
    Exists,
    Header,
    Key,
    Matches,
    Not,
    Prefix,
    Timestamp,
    Where,
)

_few = st.binary(max_size=2).map(lambda data: data.replace(b"\x00", b"\xff"))
_value_tests = st.one_of(
    st.builds(Equals, _few), st.builds(Prefix, _few), st.sampled_from([Matches(".*"), Matches("a.?")])
)
_leaves: st.SearchStrategy[Where] = st.one_of(
    st.builds(Header, st.sampled_from(["a", "b"]), _value_tests | st.builds(Exists, st.booleans())),
    st.builds(Key, _value_tests | st.builds(Exists, st.booleans())),
    st.builds(Timestamp, st.none() | st.integers(0, 5), st.none() | st.integers(0, 5)),
)
wheres: st.SearchStrategy[Where] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)

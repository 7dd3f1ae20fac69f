"""Values are shown in units that can be pasted back, and equal spellings are equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.config_values import canonical, human, number, same
from reconciler.text import duration_ms, size_bytes


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("retention.ms", "604800000", "7d"),
        ("retention.ms", "90000", "90s"),
        ("retention.ms", "99", "99ms"),
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "-1", "unlimited"),
        ("local.retention.ms", "-2", "-2"),
        ("message.timestamp.before.max.ms", "-1", "-1"),
        ("flush.ms", "9223372036854775807", "max"),
        ("segment.bytes", "1073741824", "1GiB"),
        ("max.message.bytes", "1048588", "1048588"),
        ("min.insync.replicas", "86400000", "86400000"),
        ("cleanup.policy", "compact", "compact"),
        ("leader.replication.throttled.replicas", "", '""'),
        ("retention.ms", None, "(not set)"),
    ],
)
def test_human(key: str, value: str | None, shown: str) -> None:
    assert human(key, value) == shown


@given(st.integers(1, 10**15))
def test_what_is_shown_means_the_same_when_pasted_back(amount: int) -> None:
    assert duration_ms(human("retention.ms", str(amount))) == amount
    shown = human("segment.bytes", str(amount))
    assert (int(shown) if shown.isdigit() else size_bytes(shown)) == amount


@given(st.sampled_from(("cleanup.policy", "retention.ms", "preallocate", "x")), st.text())
def test_canonical_is_stable(key: str, value: str) -> None:
    assert canonical(key, canonical(key, value)) == canonical(key, value)


def test_different_values_stay_different() -> None:
    assert not same("cleanup.policy", "compact", "compact,delete")
    assert not same("retention.ms", "7", "70")
    assert not same("preallocate", "true", "false")
    assert not same("x", None, "")
    assert not same("compression.type", "ZSTD", "zstd"), "only booleans ignore case"


@pytest.mark.parametrize(
    "value", ["1\x1d", "\x1c-1\x1f", "1.5\x85", "9" * 5_000, "-" + "9" * 401, "\u0661", "\u00b2", " 7 "]
)
def test_whatever_a_cluster_has_for_a_number_is_read_or_left_as_text(value: str) -> None:
    """Of a broker that checks nothing; it ended a plan in a traceback."""
    assert number(value) is None or isinstance(number(value), float)
    assert canonical("retention.ms", value)
    assert human("retention.ms", value)
    assert same("retention.ms", value, f" {value}")

"""The reasons of a group of equal changes: nothing of several flows is hidden behind one."""

from __future__ import annotations

import pytest

from reconciler.render.plan.outline import reasons_words


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([], ""),
        (["declared in topics.yaml"] * 5, "declared in topics.yaml"),
        ([f"flow a mirrors east/t{n}" for n in range(5)], "flow a mirrors east/t0 and 4 more"),
        (
            [f"flow {flow} mirrors east/{flow}{n}" for n in range(3) for flow in "ab"],
            "flow a mirrors east/a0 and 2 more; flow b mirrors east/b0 and 2 more",
        ),
        (
            [f"east/t{n} has 12 partitions; flow a mirrors east/t{n}" for n in range(4)],
            "east/t0 has 12 partitions; flow a mirrors east/t0 and 3 more",
        ),
        (["one reason", "a second one", "the third of all of them", "a fourth", "and then a fifth and last"], None),
    ],
)
def test_each_kind_of_reason_is_reported_with_its_count(reasons: list[str], told: str | None) -> None:
    said = reasons_words(reasons)
    if told is None:
        told = "one reason; a second one; the third of all of them; and 2 other reasons"
    assert said == told

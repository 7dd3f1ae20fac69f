"""A comment that does not fit is told with less, and still holds what people act on."""

from __future__ import annotations

from reconciler.rendering.fitting import Detail
from reconciler.rendering.markdown import drift_markdown
from tests.builders import topic, topology, world


def test_the_first_step_down_still_names_what_differs() -> None:
    seen = world("east")
    names = [f"t{number:03}" for number in range(100)]
    for name in names:
        seen.clusters["east"].put(name, 2, retention_ms="9000")
    made = seen.plan(topology(*(topic(name, configs={"retention.ms": "60"}) for name in names)))
    whole = drift_markdown(made)
    less = drift_markdown(made, limit=len(whole) * 8 // 10)
    assert "values before and after are left out" in less
    assert [name for name in names if f"{name} retention" in less] == names[:60]
    assert "and 40 more" in less
    least = drift_markdown(made, limit=0)
    assert "only counts are told" in least
    assert len(list(Detail)) == 4

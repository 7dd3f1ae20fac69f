"""What a read of a whole cluster gives to a caller that has no loop of its own."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.edges.kafka import bulk_reading
from reconciler.topology import Principal
from tests.builders import cluster


class Vast:
    """Ten thousand topics."""

    spelled_out = 0

    def __repr__(self) -> str:
        self.spelled_out += 1
        return "..."


def test_nobody_spells_out_all_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """``asyncio.run`` puts SIGINT back as it was, and so has the task and its result described."""
    vast = Vast()

    async def reading(*_: Any) -> Any:
        return vast

    monkeypatch.setattr(bulk_reading, "reading_in_bulk", reading)
    found: Any = bulk_reading.read_in_bulk(cluster("east"), Principal.PLAN)
    assert found is vast
    assert vast.spelled_out == 0

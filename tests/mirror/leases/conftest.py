"""A line that nobody closes would dial on, and log, beside the tests that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from reconciler_mirror.leases.channel import ChannelClient


@pytest.fixture(autouse=True)
def closed_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lines: list[ChannelClient] = []
    dial = ChannelClient.__init__

    def remembered(line: ChannelClient, *arguments: Any) -> None:
        lines.append(line)
        dial(line, *arguments)

    monkeypatch.setattr(ChannelClient, "__init__", remembered)
    yield
    for line in lines:
        line.close()

"""No offset of a group is committed beyond the end of the copy, as far as that is known, without brokers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from reconciler_mirror.groups.round import GroupRounds, _Entry

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset

KEY, TWIN, IDS = ("orders", 0), ("east.orders", 0), (UUID(int=1), UUID(int=2))


@pytest.mark.parametrize(
    ("end", "downstream", "says"),
    [(200, 150, ""), (120, None, "120"), (BrokerError(5, "orders"), None, "")],
    ids=["copied so far", "lost records", "no leader"],
)
def test_a_translation_counts_only_up_to_the_present_end(
    end: int | BrokerError, downstream: int | None, says: str
) -> None:
    """The end of an earlier round is none: the copy may have grown since, or lost records."""

    async def refresh(_: object) -> None:
        pass

    async def list_offsets(asked: dict[object, int], **_: object) -> dict[object, object]:
        return dict.fromkeys(asked, end)

    target: Any = SimpleNamespace(refresh=refresh, list_offsets=list_offsets)
    settings: Any = SimpleNamespace(selector=lambda: None, follow_rewinds=False)

    async def looked() -> tuple[dict[str, str], _Entry]:
        rounds, entry = GroupRounds(settings, target, target, {}), _Entry(CommittedOffset(50), IDS)
        entry.downstream, entry.exact = 150, True
        rounds._entries, rounds._ends = {"readers": {KEY: entry}}, {(TWIN, IDS): 100}
        return await rounds._beyond({KEY: TWIN[0]}), entry

    reasons, entry = asyncio.run(looked())
    assert (entry.downstream, entry.exact) == (downstream, downstream is not None)
    assert bool(reasons) is bool(says)
    assert says in "".join(reasons.values())

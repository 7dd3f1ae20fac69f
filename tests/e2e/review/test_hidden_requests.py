"""A target whose brokers offer no transactions: the plan is blocked, and at least once is its way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import Ended
from tests.support.lanes.cutting_proxy import cutting

pytestmark = pytest.mark.kafka

TRANSACTIONS = frozenset({24, 25, 26, 28})


def test_a_target_without_transactions_blocks_exactly_once(
    cli: Callable[..., Ended], tmp_path: Path, plain: Sandbox, unique: str
) -> None:
    folder = tmp_path / unique
    folder.mkdir()

    def write(target: str, delivery: str) -> Path:
        text = f"""
clusters:
  east: {{bootstrap_servers: [{plain["east"].bootstrap_servers}], cluster_id: {plain["east"].cluster_id}}}
  west: {{bootstrap_servers: [{target}], cluster_id: {plain["west"].cluster_id}}}
topics:
  {unique}: {{clusters: [east], partitions: 1, replication_factor: 1}}
flows:
  {unique}: {{source: east, target: west, topics: [{unique}], replication_factor: 1, delivery: {delivery}}}
"""
        (folder / "topology.yaml").write_text(text, encoding="utf-8")
        return folder

    with cutting(int(plain["west"].bootstrap_servers.rpartition(":")[2])) as (address, wishes):
        assert cli("plan", write(address, "exactly_once")).code == 2
        wishes.hidden = TRANSACTIONS
        blocked = cli("plan", folder)
        assert blocked.code == 3
        assert "[target-has-no-transactions]" in blocked.out
        assert f"delivery: at_least_once in flow {unique}" in blocked.out
        refused = cli("apply", folder, "--yes")
        assert refused.code == 3
        assert "do not offer them (AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit missing" in refused.err
        assert cli("plan", write(address, "at_least_once")).code == 2

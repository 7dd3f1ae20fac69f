"""Records in Kafka that the release before left: each is read, and what is written of it is the same document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.state import environment_records, ownership
from reconciler.model.state import last_apply, lock, rollout_progress
from reconciler.replication.records import pauses

RECORDS = json.loads((Path(__file__).parent / "release" / "records.json").read_text("utf-8"))
SCOPE = pauses.Scope("f")


def written_acl(value: bytes) -> bytes:
    entry = ownership.OWNED.entry_of(value)
    assert entry is not None
    return ownership.OWNED.value_of(*entry)


def written_pending(value: bytes) -> bytes:
    entry = ownership.PENDING.entry_of(value)
    assert entry is not None
    return ownership.PENDING.value_of(*entry)


def written_quota(value: bytes) -> bytes:
    entry = ownership.QUOTAS.entry_of(value)
    assert entry is not None
    return ownership.QUOTAS.value_of(*entry)


def written_user(value: bytes) -> bytes:
    entry = ownership.USERS.entry_of(value)
    assert entry is not None
    return ownership.USERS.value_of(*entry)


AGAIN: dict[str, Callable[[bytes], bytes]] = {
    "applied": lambda value: last_apply.dumps(last_apply.loads(value)),
    "lock": lambda value: lock.dumps(lock.loads(value)),
    "lock_stolen": lambda value: lock.dumps(lock.loads(value)),
    "rollout": lambda value: rollout_progress.dumps(rollout_progress.loads(value)),
    "journal": lambda value: environment_records.JOURNAL.dumps(environment_records.JOURNAL.loads(value)),
    "owned": written_acl,
    "pending": written_pending,
    "pending_not_ours": written_pending,
    "quota": written_quota,
    "user": written_user,
    "pause": lambda value: pauses.dumps(pauses.loads(SCOPE, value)),
}


def test_every_record_is_looked_at() -> None:
    assert AGAIN.keys() == RECORDS.keys()


@pytest.mark.parametrize(("name", "record"), RECORDS.items(), ids=list(RECORDS))
def test_a_record_of_the_release_before_is_read_and_written_again(name: str, record: Any) -> None:
    assert json.loads(AGAIN[name](json.dumps(record).encode())) == record

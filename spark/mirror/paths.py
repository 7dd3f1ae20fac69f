"""Which way a lane is copied: whole batches, unless something asks for single records."""

from __future__ import annotations

import os
from pathlib import Path

from mirror.batch_path import batch_path
from mirror.lanes import CopyPath, Endpoint, LaneSpec
from mirror.record_path import record_path
from mirror.settings import HandoverError
from replication.references import resolve
from wire.errors import SettingError
from wire.settings import connection_settings

BATCH, RECORD = "batch", "record"
PATH_SETTING = "spark.mirror.path"


def path_asked(value: str) -> str:
    """The value of ``spark.mirror.path``. Raises HandoverError for a word that is no path."""
    if value not in (BATCH, RECORD):
        raise HandoverError(f"{PATH_SETTING} is {value!r}; it may be {BATCH} or {RECORD}")
    return value


def choose_path(lane: LaneSpec) -> CopyPath:
    """Single records where they are asked for, or where only librdkafka can open the connection (Kerberos, say)."""
    if lane.path == RECORD or only_librdkafka(lane.source) or only_librdkafka(lane.target):
        return record_path
    return batch_path


def only_librdkafka(endpoint: Endpoint) -> bool:
    """Whether our own connections lack a setting that this cluster's security needs."""
    try:
        client = resolve(endpoint.client, os.environ, lambda name: Path(name).read_text(encoding="utf-8"))
        connection_settings(client)
    except SettingError:
        return True
    except LookupError:
        return False  # a secret is missing; the path says which
    return False

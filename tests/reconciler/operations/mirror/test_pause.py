"""Where the topic of pauses is missing, no pause is asked for or lifted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.environment.load import load
from reconciler.errors import ReconcilerError
from reconciler.operations.mirror import pause as pausing
from reconciler.resources.mirrors.pause_and_seek import PauseRequest

ENVIRONMENT = """
clusters: {east: {bootstrap_servers: ["east:9092"]}, west: {bootstrap_servers: ["west:9092"]}}
flows: {f: {source: east, target: west, topics: [orders]}}
"""


@pytest.mark.parametrize(
    "command",
    [
        lambda folder: pausing.pause(folder, PauseRequest("f", ""), "", 1, print),
        lambda folder: pausing.resume(folder, PauseRequest("f", ""), 1, print),
    ],
    ids=["pause", "resume"],
)
def test_before_the_first_apply_the_topic_is_named_and_nothing_is_written(
    command: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        records = SimpleNamespace(pauses=dict, topic_missing=True)
        yield SimpleNamespace(topology=load({"e.yaml": ENVIRONMENT}, "e"), records={"west": records})

    monkeypatch.setattr(pausing, "open_session", opened)
    with pytest.raises(ReconcilerError, match="west has no topic __mirror_status") as refused:
        command(tmp_path)
    assert "Create the topic: reconciler apply ENV" in str(refused.value)

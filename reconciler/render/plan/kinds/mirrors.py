"""Changes of mirror jobs in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from reconciler.model.changes import MirrorChange, RestartMirror, StartMirror, StopMirror
from reconciler.render.plan.kinds.words import FieldValues, Words


def _headline(change: MirrorChange, why: str) -> str:
    match change:
        case StartMirror():
            return f"start{why}"
        case RestartMirror():
            return f"restart once{why}"
        case StopMirror():
            return f"stop{why}"
        case _:
            assert_never(change)


def _lines(changes: Sequence[MirrorChange]) -> Iterator[str]:
    change = changes[0]
    if not isinstance(change, StopMirror):
        yield from change.because
        before = f"{change.before} -> " if isinstance(change, RestartMirror) else ""
        yield f"fingerprint {before}{change.fingerprint}"


def _fields(change: MirrorChange) -> Iterator[FieldValues]:
    match change:
        case StartMirror():
            yield FieldValues("job", "", "started")
        case RestartMirror():
            yield FieldValues("job", "running", "restarted once")
        case StopMirror():
            yield FieldValues("job", "running", "")
        case _:
            assert_never(change)
    if not isinstance(change, StopMirror):
        yield from (FieldValues("because", None, line) for line in change.because)


MIRRORS: Words[MirrorChange] = Words(
    "mirror",
    lambda change: str(change.subject),
    _headline,
    signature=lambda change: change,
    lines=_lines,
    fields=_fields,
)

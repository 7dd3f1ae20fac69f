"""The kind of mirrors: Spark jobs that copy the records of flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model.changes import (
    About,
    KindName,
    MirrorChange,
    RestartMirror,
    Risk,
    StartMirror,
    StopMirror,
    Subject,
)
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.reports.drift import Deviation
from reconciler.resources.kind import ABSENT, UNKNOWN, Assessment, Counts, Kind, World
from reconciler.text import counted


def assess(change: MirrorChange, _: World) -> Assessment:
    match change:
        case StartMirror():
            return Assessment(Risk.LOW)
        case RestartMirror():
            return Assessment(Risk.MEDIUM, "copying pauses while the job restarts; no record is lost or doubled")
        case StopMirror():
            return Assessment(Risk.MEDIUM, "its flows are no longer copied; positions stay for a later start")
        case _:
            assert_never(change)


def states(live: LiveState) -> Callable[[Subject], str]:
    return lambda subject: _state(live.mirrors.get(subject.name))


def _state(mirror: LiveMirror | Unknown | None) -> str:
    if mirror is None:
        return ABSENT
    if isinstance(mirror, Unknown):
        return UNKNOWN
    return f"{mirror.state}, application {mirror.application_id or 'none'}, fingerprint {mirror.fingerprint or 'none'}"


def deviations(change: MirrorChange) -> Iterator[Deviation]:
    subject = str(change.subject)
    match change:
        case StartMirror():
            yield Deviation(subject, "mirror-not-running", "running", change.reason.text)
        case RestartMirror():
            desired, text = f"fingerprint {change.fingerprint}", f"fingerprint {change.before}"
            yield Deviation(subject, "mirror-definition", desired, text)
        case StopMirror():
            yield Deviation(subject, "mirror-not-declared", "no such mirror", "running")
        case _:
            assert_never(change)


def counts(changes: Sequence[MirrorChange]) -> Counts:
    words = []
    for begun, word in ((StartMirror, "start"), (RestartMirror, "restart"), (StopMirror, "stop")):
        if mine := [change for change in changes if isinstance(change, begun)]:
            names = ", ".join(change.mirror for change in mine)
            words.append(f"{mine[0].action.value}{counted(len(mine), f'mirror {word}')} ({names})")
    return Counts(tuple(words))


KIND: Kind[MirrorChange] = Kind(
    name=KindName.MIRRORS,
    changes=(StartMirror, RestartMirror, StopMirror),
    assess=assess,
    place=lambda change: (0, change.mirror),
    rests_on=lambda change, _: (change.subject,),
    states={About.MIRROR: states},
    takes_away=(RestartMirror, StopMirror),
    deviations=deviations,
    counts=counts,
)

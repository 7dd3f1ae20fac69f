"""The kind of mirrors: Spark jobs that copy the records of flows."""

from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model.changes import (
    About,
    FlowEdit,
    KindName,
    MirrorChange,
    RestartMirror,
    Risk,
    StartMirror,
    StopMirror,
    Subject,
)
from reconciler.model.live import LiveState
from reconciler.model.reports.drift import Deviation
from reconciler.resources.kind import ABSENT, REVERSIBLE, UNKNOWN, Assessment, Counts, Kind, World
from reconciler.text import first_of

SHOWN = 2


PAUSES = "copying pauses while the job restarts"
IRREVERSIBLE = "irreversible: what is copied meanwhile stays as it is copied"


def assess(change: MirrorChange, _: World) -> Assessment:
    """Risk by the effects of edits on records; medium for a restart with an unknown former definition."""
    match change:
        case StartMirror():
            return _edited("", change.edits or ())
        case RestartMirror(edits=None):
            why = "which settings of its flows differ is not known here, nor whether records may be lost or doubled"
            return Assessment(Risk.MEDIUM, f"{PAUSES}; {why}: plan --base shows it")
        case RestartMirror(edits=edits):
            return _edited(PAUSES, edits or ())
        case StopMirror():
            return Assessment(Risk.MEDIUM, "its flows are no longer copied; positions stay for a later start")
        case _:
            assert_never(change)


def _edited(pauses: str, edits: Sequence[FlowEdit]) -> Assessment:
    """The risk of the worst edit; lists all edits that do more than pause copying."""
    worth = [edit for edit in edits if edit.risk is not Risk.LOW]
    harm = [f"{f'flow {edit.flow}, ' if edit.flow else ''}{edit.setting}: {edit.why}" for edit in worth]
    risks = [*(edit.risk for edit in edits), *([Risk.MEDIUM] if pauses else [])]
    risk = max(risks, key=list(Risk).index, default=Risk.LOW)
    words = [pauses] if pauses and harm else [f"{pauses}; no record is lost or doubled"] if pauses else []
    reversibility = IRREVERSIBLE if any(edit.lasting for edit in edits) else REVERSIBLE
    return Assessment(risk, "; ".join([*harm, *words]), reversibility)


def states(live: LiveState) -> Callable[[Subject], str]:
    """State, application and fingerprint, by which an apply notices a job that changed after the plan."""

    def state(subject: Subject) -> str:
        mirror = live.mirrors.get(subject.name)
        if mirror is None:
            return ABSENT
        if isinstance(mirror, Unknown):
            return UNKNOWN
        fingerprint = mirror.fingerprint or "none"
        return f"{mirror.state}, application {mirror.application_id or 'none'}, fingerprint {fingerprint}"

    return state


def deviations(change: MirrorChange) -> Iterator[Deviation]:
    """Desired and actual job, for ``drift``."""
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
            names = ", ".join(f"{change.mirror}{_edits_words(change)}" for change in mine)
            words.append((f"{word}s {'mirror' if len(mine) == 1 else 'mirrors'}", names))
    return Counts(tuple(words))


def _edits_words(change: MirrorChange) -> str:
    """A suffix such as `` (records can come twice)``, which gives a restart's effect in a headline."""
    edits = [] if isinstance(change, StopMirror) else [e for e in change.edits or () if e.risk is not Risk.LOW]
    edits.sort(key=lambda edit: edit.risk is not Risk.HIGH)
    return f" ({first_of(list(dict.fromkeys(edit.short for edit in edits)), SHOWN)})" if edits else ""


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

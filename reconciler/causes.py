"""Why a cluster is not as git declares, as far as facts tell: the plan's own, and the audit record of earlier runs.

Border: never a guess. Where two stories fit the same facts, the cause is ``not-told`` and both are said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never

from reconciler.changes import (
    AclChange,
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    ConfigChange,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteUser,
    FinishReassignment,
    Reason,
    ReassignReplicas,
    UserChange,
)
from reconciler.live import Source
from reconciler.plans import Planned
from reconciler.topic_configs import same

Line = Mapping[str, Any]


class Cause(StrEnum):
    """A throttle of a reassignment is never a difference: it stands among the ignored, rule ``throttle``."""

    EDITED_OUTSIDE = "edited-outside"
    HALF_FINISHED = "half-finished-apply"
    DEFAULT_CHANGED = "broker-default-changed"
    NORMALISED = "vendor-normalised"
    NOT_TOLD = "not-told"


@dataclass(frozen=True, slots=True)
class Told:
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """By change id: the outcomes of earlier runs, oldest first; and when runs began that never ended their plan.

    ``cut_off``: none has ended since, so what is not done is what they left. ``overtaken``: the last one after which
    others ended; what these held back may be left of it, or be new. ``known``: there is a record at all.
    """

    changes: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    cut_off: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    overtaken: str = ""

    @property
    def nobody(self) -> str:
        """Where no run is known that did something: that there was none, or that nobody kept a record here."""
        return "no earlier run did it" if self.known else "no record of earlier runs is here"


def history(lines: Iterable[Line]) -> History:
    """Of an audit record (schemas/audit.schema.json), oldest line first. A line of another shape is passed over."""
    changes: dict[str, tuple[Line, ...]] = {}
    open_runs: dict[str, str] = {}
    left: dict[str, object] = {}
    known, overtaken = False, ""
    for line in lines:
        known = True
        run = str(line.get("run", ""))
        match line.get("kind"):
            case "begin" if line.get("plan_digest", "") is not None:  # null: a command by hand, which plans nothing
                open_runs[run], left[run] = str(line.get("at", "")), line.get("changes")
            case "end" if run in open_runs:
                del open_runs[run]
                overtaken = max([overtaken, *_unfinished(open_runs, left).values()])
                open_runs.clear()
            case "change" if isinstance(line.get("id"), str):
                changes[line["id"]] = (*changes.get(line["id"], ()), line)
                left[run] = _one_less(left.get(run))
    return History(changes, _unfinished(open_runs, left), known, overtaken)


def _unfinished(open_runs: Mapping[str, str], left: Mapping[str, object]) -> Mapping[str, str]:
    """Without those that were killed after their last change."""
    return {run: at for run, at in open_runs.items() if left.get(run) != 0}


def _one_less(count: object) -> object:
    return count - 1 if isinstance(count, int) else None


def cause_of(planned: Planned, seen: History, one: ConfigChange | None = None) -> Told:
    """``one``: the single config of an ``AlterConfigs`` that is asked about."""
    before = seen.changes.get(planned.id, ())
    last = before[-1] if before else None
    if last is not None and last.get("result") in ("unproven", "left"):
        return Told(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did it, and no probe confirmed it")
    if last is not None and last.get("result") in ("failed", "skipped", "undone"):
        return Told(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did not do it: {_first(last.get('error'))}")
    if isinstance(planned.change, ReassignReplicas) and planned.change.in_flight:
        return Told(Cause.HALF_FINISHED, "an earlier run began it, and it has not ended")
    if isinstance(planned.change, FinishReassignment):
        return Told(Cause.HALF_FINISHED, "an earlier run began it and did not clear up after it")
    if one is not None:
        lines = (*_creation(planned.change, seen), *before)
        return _config(planned.change, one, sorted(lines, key=lambda line: str(line.get("at", ""))), seen.nobody)
    if isinstance(planned.change, UserChange):
        return _user(planned.change)
    if isinstance(planned.change, AclChange):
        return _access(planned.change)
    if isinstance(planned.change, AlterQuota) and last is not None and _limited(last, planned.change):
        return Told(Cause.EDITED_OUTSIDE, f"set by the apply of {last.get('at')}, and changed since then")
    if isinstance(planned.change, AddPartitions | CreateTopic) and last is not None:
        gone = "the topic is gone or was made anew" if isinstance(planned.change, CreateTopic) else "it has fewer again"
        return Told(Cause.EDITED_OUTSIDE, f"done by the apply of {last.get('at')}, and since then {gone}")
    if seen.cut_off:
        at = max(seen.cut_off.values())
        return Told(Cause.HALF_FINISHED, f"the run of {at} was cut off, and this is not among what it did")
    if seen.overtaken:
        either = f"new in git, changed outside, or left by the run of {seen.overtaken}, which was cut off"
        return Told(Cause.NOT_TOLD, f"{seen.nobody}: {either}")
    return Told(Cause.NOT_TOLD, f"{seen.nobody}: new in git, or changed outside")


def grown_outside(ref: str, seen: History) -> Told:
    """Why a topic has more partitions than git declares."""
    lines = [line for id_ in (f"create:{ref}", f"partitions:{ref}") for line in seen.changes.get(id_, ())]
    done = [str(line.get("at")) for line in lines if line.get("result") == "done"]
    if done:
        return Told(Cause.EDITED_OUTSIDE, f"set by the apply of {max(done)}, and partitions were added since then")
    return Told(Cause.NOT_TOLD, "partitions were added outside, or git now declares fewer")


def _access(change: AclChange) -> Told:
    """By the cluster's ownership record, which every run reads, wherever it runs."""
    match change:
        case CreateAcl(reason=Reason(code="removed-outside")):
            return Told(Cause.EDITED_OUTSIDE, "an earlier run made the rule, and someone has removed it since")
        case CreateAcl(reason=Reason(code="not-probed")) | DeleteAcl(reason=Reason(code="not-probed")):
            return Told(Cause.HALF_FINISHED, "an earlier run did it, and no probe has confirmed it")
        case CreateAcl(rests_on=""):
            return Told(Cause.NOT_TOLD, "no earlier run made the rule: new in git")
        case CreateAcl():
            return Told(Cause.NOT_TOLD, f"no earlier run made the rule: new in git, or {change.rests_on} is new")
        case DeleteAcl(reason=Reason(code="declared-absent")):
            return Told(Cause.NOT_TOLD, "declared absent, and still or again there")
        case DeleteAcl():
            return Told(Cause.NOT_TOLD, "an earlier run made the rule, and nothing asks for it any more")
        case _:
            assert_never(change)


def _user(change: UserChange) -> Told:
    """By the cluster's ownership record, which every run reads, wherever it runs."""
    match change:
        case AlterUser(reason=Reason(code="unfinished")):
            return Told(Cause.HALF_FINISHED, change.reason.text)
        case AlterUser(reason=Reason(code="removed-outside")):
            return Told(Cause.EDITED_OUTSIDE, "an earlier run made the user, and someone has removed it since")
        case AlterUser(reason=Reason(code="mechanism-missing" | "iterations")):
            return Told(Cause.NOT_TOLD, "new in git, or changed outside: Kafka does not tell who set a credential")
        case AlterUser():
            return Told(Cause.NOT_TOLD, f"no earlier run set version {change.version}: new in git")
        case DeleteUser(reason=Reason(code="declared-absent")):
            return Told(Cause.NOT_TOLD, "declared absent, and still or again there")
        case DeleteUser():
            return Told(Cause.NOT_TOLD, "an earlier run made it, and git names it no longer")
        case _:
            assert_never(change)


def _config(change: Change, one: ConfigChange, before: list[Line], nobody: str) -> Told:
    ours = [(line, old) for line in before if line.get("result") == "done" for old in _settings_of(line, one.key)]
    wished = one.after if one.goal is None else one.goal
    done = [(line, old) for line, old in ours if same(one.key, old.get("after"), wished)]
    if len(done) > 1 and all(same(one.key, old.get("before"), one.before) for _, old in done[1:]):
        times = f"set {len(done)} times, last by the apply of {done[-1][0].get('at')}"
        return Told(Cause.NORMALISED, f"{times}, and each time the cluster went back to the same other value")
    if ours:
        return _since(*ours[-1], one, wished)
    if one.before_source != Source.TOPIC.value:
        default = f"the cluster's default ({one.before_source}) is not what is wished"
        why = f"the topic has no value of its own, and {default}: one of the two changed, or the wish is new"
        return Told(Cause.DEFAULT_CHANGED, why)
    assert isinstance(change, AlterConfigs)
    return Told(Cause.NOT_TOLD, f"set on the topic, and {nobody}: edited outside, or new in git")


def _since(line: Line, old: Mapping[str, Any], one: ConfigChange, wished: str | None) -> Told:
    """What happened since ``line``, the last run of ours that set it, to the value that ``old`` tells."""
    at, goal = f"the apply of {line.get('at')}", old.get("goal")
    if one.before_source == Source.TOPIC.value and same(one.key, old.get("after"), one.before):
        if goal is not None:
            return Told(Cause.HALF_FINISHED, f"{at} lowered it by one step of several; each further apply goes on")
        return Told(Cause.NOT_TOLD, f"as {at} left it: git has another wish since then")
    if same(one.key, old.get("after") if goal is None else goal, wished):
        return Told(Cause.EDITED_OUTSIDE, f"set by {at}, and changed since then")
    return Told(Cause.NOT_TOLD, f"set otherwise by {at}; since then it was changed, and git has another wish too")


def _limited(line: Line, change: AlterQuota) -> bool:
    """Whether that run set every limit to what is wished now."""
    told = line.get("change")
    limits = told.get("limits") if isinstance(told, Mapping) else None
    done = [(one.get("key"), one.get("after")) for one in limits or () if isinstance(one, Mapping)]
    return line.get("result") == "done" and all((one.key, one.after) in done for one in change.limits)


def _creation(change: Change, seen: History) -> tuple[Line, ...]:
    return seen.changes.get(f"create:{change.ref}", ()) if isinstance(change, AlterConfigs) else ()


def _settings_of(line: Line, key: str) -> list[Mapping[str, Any]]:
    """What that run did to one config: none or one."""
    change = line.get("change")
    configs = change.get("configs") if isinstance(change, Mapping) else None
    told = [one for one in configs if isinstance(one, Mapping)] if isinstance(configs, list | tuple) else []
    return [one for one in told if one.get("key") == key]


def _first(error: object) -> str:
    return str(error).partition("\n")[0] if error else "no reason was recorded"

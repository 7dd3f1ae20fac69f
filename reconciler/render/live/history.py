"""The lock and who changed what, newest first, with whether the record is whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.state.audit_chain import ChainReport
from reconciler.render.elements import code, codes, folded, table
from reconciler.render.escape import page as safe
from reconciler.render.live.parts import ages_of, pill
from reconciler.render.live.view import AuditTrail, LiveView, Region, affairs_now, live_now
from reconciler.render.reports.status.status import lock_line
from reconciler.text import counted, grouped

MOST_RUNS = 50
MOST_CHANGES = 200
Line = Mapping[str, Any]


def history_page(view: LiveView, now_ms: int) -> tuple[Region, ...]:
    lock = lock_line(affairs_now(view, now_ms).lock, live_now(view, now_ms), now_ms)
    trail = view.audit.value
    runs = "<p class=unknown>unknown: it was not read</p>" if trail is None else "".join(_runs(trail.lines))
    return (
        Region("head", f"<h1>{safe(lock[:1].upper() + lock[1:])}</h1>"),
        Region("ages", ages_of({"lock": view.lock, "audit record": view.audit}, now_ms)),
        Region("chains", "".join(_chains(trail)) if trail is not None else ""),
        Region("runs", f"<h2>Who changed what</h2>{runs}", calm=True),
    )


def _chains(trail: AuditTrail) -> Iterator[str]:
    rows = [(code(place), *_chain(report)) for place, report in trail.checked.places.items()]
    yield table(("audit record of", "state", "why"), rows)


def _chain(report: ChainReport | Unknown) -> tuple[str, str]:
    if isinstance(report, Unknown):
        return pill("unknown", "unknown"), safe(f"{report.error}. {report.todo}")
    if report.broken is not None:
        return pill("broken", "problem"), safe(f"{report.broken.problem}, at {report.broken.at}")
    if report.doubts:
        return pill("not proved", "problem"), safe("; ".join(report.doubts))
    if not report.since:
        return pill("not checked", "unknown"), "no record has a digest of the one before it"
    return pill("whole", "ok"), safe(f"{counted(report.records, 'record')} since {report.since}")


def _runs(lines: Sequence[Line]) -> Iterator[str]:
    runs = list(grouped((str(line.get("run", "")), line) for line in lines).items())
    if not runs:
        yield "<p>no run is recorded</p>"
    for name, its in reversed(runs[-MOST_RUNS:]):
        yield _run(name, its)
    if len(runs) > MOST_RUNS:
        yield f"<p>and {len(runs) - MOST_RUNS:,} earlier runs in the record</p>"


def _run(name: str, lines: Sequence[Line]) -> str:
    begin = next((line for line in lines if line.get("kind") == "begin"), lines[0])
    ended = any(line.get("kind") == "end" for line in lines)
    changes = [line for line in lines if line.get("kind") == "change"]
    undone = sum(line.get("result") != "done" for line in changes)
    state = pill("ended", "ok") if ended else pill("no end recorded", "unknown")
    state += f" {pill(f'{undone} not done', 'problem')}" if undone else ""
    who = f"{begin.get('who', 'unknown')}@{begin.get('host', 'unknown')}"
    words = f"{safe(str(begin.get('at', '')))} {code(str(begin.get('command', 'unknown')))} by {safe(who)}"
    summary = f"{words}: {counted(len(changes), 'change')} {state}"
    rows = ((code(str(c.get("id"))), safe(str(c.get("result"))), safe(str(c.get("error") or ""))) for c in changes)
    shown = table(("change", "result", "error"), list(rows)[:MOST_CHANGES]) if changes else "<p>no change</p>"
    more = f"<p>and {len(changes) - MOST_CHANGES:,} more</p>" if len(changes) > MOST_CHANGES else ""
    commit = f"<p>commit {codes([str(begin['commit'])])}</p>" if begin.get("commit") else ""
    return folded(summary, f"{commit}{shown}{more}", f"run-{name}")

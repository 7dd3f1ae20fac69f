"""What ``doctor`` found, as text or JSON: the verdict first, then what needs somebody, then what is in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from reconciler.checkups import Checkup, Finding, Verdict
from reconciler.rendering.style import Style

FORMAT_VERSION = 1
_ORDER = (Verdict.PROBLEM, Verdict.UNKNOWN, Verdict.WARNING, Verdict.OK)
_PAINT = {Verdict.PROBLEM: "alarm", Verdict.UNKNOWN: "~", Verdict.WARNING: "~", Verdict.OK: "+"}


def checkup_verdict(checkup: Checkup) -> str:
    parts = [f"{count} {_plural(one, count)}" for one in _ORDER if (count := checkup.count(one))]
    start = "Not healthy" if checkup.exit_code else "No problem found"
    return f"{start}: {', '.join(parts)}" if parts else start


def checkup_text(checkup: Checkup, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", checkup_verdict(checkup)), f"environment {checkup.environment}"]
    for verdict in _ORDER[:-1]:
        found = [one for one in checkup.findings if one.verdict is verdict]
        if found:
            lines += ["", chosen.paint(_PAINT[verdict], f"{verdict.value.capitalize()} ({len(found)})")]
        for one in found:
            lines += _told(one)
    lines += ["", *_in_order(checkup, chosen)]
    return "\n".join(lines).rstrip() + "\n"


def checkup_json(checkup: Checkup) -> str:
    """As schemas/doctor.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "doctor",
        "environment": checkup.environment,
        "verdict": checkup_verdict(checkup),
        "exit_code": checkup.exit_code,
        "findings": [asdict(one) for one in checkup.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _plural(verdict: Verdict, count: int) -> str:
    words = {Verdict.PROBLEM: "problem", Verdict.WARNING: "warning"}
    return words[verdict] + ("s" if count != 1 else "") if verdict in words else verdict.value


def _told(one: Finding) -> Iterator[str]:
    yield f"  {one.subject}, {one.check}: {one.text}"
    if one.why:
        yield f"    why: {one.why}"
    yield from (f"    do: {line}" for line in one.todo if line)


def _in_order(checkup: Checkup, style: Style) -> Iterator[str]:
    fine = [one for one in checkup.findings if one.verdict is Verdict.OK]
    if fine:
        yield style.paint("+", f"In order ({len(fine)})")
    yield from (f"  {one.subject}, {one.check}: {one.text}" for one in fine)

"""Parses ``moved``: flows that were renamed, and what their state on the target goes on to be called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.environment.parse.values import Wrong
from reconciler.environment.yaml.entry import Reading
from reconciler.model.environment.topology import Flow, Rename

KINDS = ("flow", "topic", "environment")


def build_rename(reading: Reading) -> Rename:
    given = [kind for kind in KINDS if reading.value(kind, default="")]
    if len(given) != 1:
        problem = f"the entry names {' and '.join(given) or 'nothing that was renamed'}"
        reading.wrong((), Wrong("bad-value", problem, "One thing was renamed", "Write flow: NEW, from: OLD"))
        return Rename("", "", "", reading.place.where)
    name = str(reading.value(given[0], default=""))
    return Rename(given[0], name, str(reading.value("from", default="")), reading.place.where)


def first_names(renames: Iterable[Rename]) -> Mapping[str, str]:
    """Flow as it is called now -> what it was called first. Of renames that follow one another in a circle nothing is
    said: they are refused."""
    before = {rename.name: rename.before for rename in renames if rename.kind == "flow"}
    firsts: dict[str, str] = {}
    for name in before:
        first, passed = name, {name}
        while first in before and before[first] not in passed:
            first = before[first]
            passed.add(first)
        if first not in before:
            firsts[name] = first
    return firsts


def earlier_names(environment: str, renames: Iterable[Rename]) -> tuple[str, ...]:
    """Names that ``environment`` had, the last one first. A circle ends where it closes."""
    before = {rename.name: rename.before for rename in renames if rename.kind == "environment"}
    names = [environment]
    while (name := before.get(names[-1])) is not None and name not in names:
        names.append(name)
    return tuple(names[1:])


def with_first_names(flows: Iterable[Flow], renames: Iterable[Rename]) -> list[Flow]:
    firsts = first_names(renames)
    return [replace(flow, moved_from=firsts[flow.name]) if flow.name in firsts else flow for flow in flows]

"""Renames of flows: present names of former flows, and flows that look renamed.

A flow in ``moved`` keeps its state under its first name, so flows of two definitions with the same state name are one
(decision 127).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reconciler.model.changes import About, Refused, Subject, Why
from reconciler.model.environment.topology import Topology, by_name

Handover = Mapping[str, Any]

KEEPS = "its positions, offset map, transactional ids and pauses stay, so nothing is copied again or left out"


def state_of(flow: Handover) -> str:
    """A flow's state name. ``flow``: an entry of a hand-over's ``flows``."""
    return str(flow.get("moved_from") or flow["name"])


def called_now(topology: Topology) -> Mapping[str, str]:
    """State name -> renamed flow."""
    return {flow.state_name: flow.name for flow in topology.flows.values() if flow.moved_from}


def entry(old: str, new: str) -> str:
    """The entry for the files."""
    return f"moved: [{{flow: {new}, from: {old}}}]"


def as_called_now(before: Topology, after: Topology) -> Topology:
    """``before`` with flows under their names in ``after``."""
    now = called_now(after)
    names = {name: now.get(flow.state_name, name) for name, flow in before.flows.items()}
    if all(name == other for name, other in names.items()):
        return before
    flows = by_name(replace(flow, name=names[name]) for name, flow in before.flows.items())
    mirrors = by_name(
        replace(mirror, flows=tuple(names.get(name, name) for name in mirror.flows))
        for mirror in before.mirrors.values()
    )
    return replace(before, flows=flows, mirrors=mirrors)


def renamed_flows(before: Iterable[Handover], after: Iterable[Handover]) -> Mapping[str, str]:
    """New flow -> the equal former flow with another name, if it is unique."""
    old, new = ({str(flow["name"]): flow for flow in side} for side in (before, after))
    gone = {name: _content(old[name]) for name in old.keys() - new.keys()}
    fresh = {name: _content(new[name]) for name in new.keys() - old.keys() if "moved_from" not in new[name]}
    pairs = [(name, other) for name, content in fresh.items() for other, was in gone.items() if content == was]
    news, olds = [name for name, _ in pairs], [other for _, other in pairs]
    return {name: other for name, other in pairs if news.count(name) == olds.count(other) == 1}


def _content(flow: Handover) -> Handover:
    return {key: value for key, value in flow.items() if key not in ("name", "fingerprint", "moved_from")}


def left_behind(before: Iterable[Handover], after: Iterable[Handover]) -> Iterator[Refused]:
    """Refuses flows that would lose their state: the running job keeps it under another name than the files say."""
    now = {str(flow["name"]): flow for flow in after}
    for flow in before:
        name = str(flow["name"])
        if name not in now or (kept := state_of(flow)) == (asked := state_of(now[name])):
            continue
        text = (
            f"flow {name} keeps its positions, offset map and pauses under the name {kept}, and the files say {asked}:"
            f" it would stop with position_missing, since {kept} has copied its partitions"
        )
        todo = (
            f"Keep {entry(kept, name)} as long as the flow exists"
            if kept != name
            else f"Remove the entry of moved that names {asked}; to continue at the position of {asked}: "
            f"reconciler mirror seek ENV {name} --topic T --from-flow {asked}"
        )
        yield Refused.of(Subject(About.FLOW, name=name), Why.FLOW_STATE_LEFT, text, todo)

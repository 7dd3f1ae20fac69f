"""``mirror import-positions`` carried out: MirrorMaker 2's positions read twice, judged, and written where asked.

Border: puts edges into doings; no arguments, no exit codes. Everything is read as the principal ``plan``, since nothing
may have been applied yet; no cluster is written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.choices import CONNECTOR
from reconciler.counts import counted
from reconciler.edges.connect_offsets import read_records, workers
from reconciler.edges.files import read_environment, write_text
from reconciler.edges.moving import Side
from reconciler.errors import BlockedError, ClusterError, ReconcilerError, Unknown
from reconciler.inheriting import Inheritance, Records, World, inherit, positions, wanted, write_starts
from reconciler.live import JobState
from reconciler.routing import selector_of
from reconciler.steering import job_of
from reconciler.topology import Flow, Principal, TopicRef
from reconciler.wiring import Session, open_session

LOOK_AGAIN_S = 5.0
"""Between two looks. MirrorMaker 2 stores positions once a minute by default, so its workers are looked for, too."""


@dataclass(frozen=True, slots=True)
class ImportWish:
    """Empty: as a dedicated MirrorMaker 2 has it. ``on``: the cluster that keeps the offsets topic."""

    flow: str = ""
    offsets_topic: str = ""
    connector: str = CONNECTOR
    alias: str = ""
    on: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """``absent``: flow -> the offsets topic that is not there. ``files``: those that were written."""

    environment: str
    flows: tuple[Inheritance, ...]
    absent: Mapping[str, TopicRef]
    files: tuple[str, ...] = ()


def import_positions(folder: Path, wish: ImportWish, write: bool, say: Callable[[str], None]) -> Imported:
    """What was found, and written when ``write``. Raises ReconcilerError, then no file was changed."""
    with open_session(folder, Principal.PLAN) as session:
        flows = _flows(session, wish)
        places = {flow.name: _place(flow, wish) for flow in flows}
        first = _read(session, places)
        if not any(found is not None for found in first.values()):
            raise _nothing_there(session, places)
        say(f"looking again in {LOOK_AGAIN_S:.0f} s, to see whether MirrorMaker 2 still copies")
        time.sleep(LOOK_AGAIN_S)
        second = _read(session, places)
        found: list[Inheritance] = []
        for flow in flows:
            before, now = first[flow.name], second[flow.name]
            if before is not None and now is not None:
                found.append(_judged(session, flow, wish, (before, now)))
        absent = {name: place for name, place in places.items() if second[name] is None}
        made = Imported(session.topology.environment, tuple(found), absent)
        return _written(session, made) if write else made


def _flows(session: Session, wish: ImportWish) -> Sequence[Flow]:
    declared = session.topology.flows
    if wish.on and wish.on not in session.topology.clusters:
        raise ReconcilerError(
            f"--on names {wish.on}, which is no cluster of {session.topology.environment}",
            "The offsets topic is looked for there.",
            f"Its clusters: {', '.join(session.topology.clusters) or 'none'}.",
        )
    if wish.flow and wish.flow not in declared:
        raise ReconcilerError(
            f"environment {session.topology.environment} has no flow {wish.flow}",
            "Positions are taken over by a flow.",
            f"Its flows: {', '.join(declared) or 'none'}.",
        )
    if not declared:
        raise ReconcilerError("no flow is declared", "Positions are taken over by a flow.", "Declare the flow first.")
    if wish.alias and not wish.flow and len({flow.source for flow in declared.values()}) > 1:
        raise ReconcilerError(
            "--alias is given, and the flows have several sources",
            "It is the name of one source.",
            "Name the flow, and take them one by one.",
        )
    return [declared[wish.flow]] if wish.flow else list(declared.values())


def _place(flow: Flow, wish: ImportWish) -> TopicRef:
    return TopicRef(wish.on or flow.target, wish.offsets_topic or f"mm2-offsets.{wish.alias or flow.source}.internal")


def _side(session: Session, cluster: str) -> Side:
    return Side(session.topology.clusters[cluster], Principal.PLAN)


def _read(session: Session, places: Mapping[str, TopicRef]) -> Mapping[str, Records | None]:
    """By flow; None where the topic is not there, or hidden. Raises ClusterError for what cannot be read."""
    there = {cluster: _side(session, cluster).partitions() for cluster in {one.cluster for one in places.values()}}
    found = {
        place: positions(read_records(_side(session, place.cluster), place.name))
        for place in set(places.values())
        if place.name in there[place.cluster]
    }
    return {name: found.get(place) for name, place in places.items()}


def _nothing_there(session: Session, places: Mapping[str, TopicRef]) -> ReconcilerError:
    wished = sorted(set(places.values()))
    alike: list[str] = []
    for cluster in sorted({flow for place in wished for flow in (place.cluster, *session.topology.clusters)}):
        try:
            names = _side(session, cluster).partitions()
        except ClusterError:
            alike.append(f"{cluster} could not be asked")
        else:
            alike += [f"{cluster}/{name}" for name in sorted(names) if _looks_like_offsets(name)]
    return ReconcilerError(
        f"no offsets topic of MirrorMaker 2: {', '.join(map(str, wished))} is not there, or hidden from principal plan",
        f"Topics that look like one: {', '.join(alike) or 'none'}.",
        "Name it with --offsets-topic, its cluster with --on, and MirrorMaker 2's alias of the source with --alias.",
    )


def _looks_like_offsets(name: str) -> bool:
    return name.startswith("mm2-offsets") or (name.endswith("offsets") and "connect" in name)


def _judged(session: Session, flow: Flow, wish: ImportWish, looks: tuple[Records, Records]) -> Inheritance:
    before, now = looks
    alias = wish.alias or flow.source
    mine = wanted(now, wish.connector, alias)
    seen = inherit(flow, _place(flow, wish), now, (wish.connector, alias), _world(session, flow, mine))
    obstacles, notes = list(seen.obstacles), list(seen.notes)
    if moved := sum(wanted(before, wish.connector, alias).get(key) != at for key, at in mine.items()):
        what = f"{counted(moved, 'position')} moved within {LOOK_AGAIN_S:.0f} s"
        obstacles.append(f"MirrorMaker 2 still copies: {what}. Stop it cleanly first, and look again")
    if not wish.offsets_topic:
        group = f"{alias}-mm2"
        try:
            state = workers(_side(session, seen.place.cluster), group)
        except ClusterError as error:
            notes.append(f"whether workers of MirrorMaker 2 are there is not known: {error.what}")
        else:
            if state is not None:
                what = f"its group {group} at {seen.place.cluster} is {state}"
                obstacles.append(f"workers of MirrorMaker 2 are there: {what}. Stop them cleanly first, and look again")
    return replace(seen, obstacles=(*obstacles, *_running(session, flow)), notes=tuple(notes))


def _running(session: Session, flow: Flow) -> Iterator[str]:
    carriers = [mirror.name for mirror in session.topology.mirrors.values() if flow.name in mirror.flows]
    if not carriers:
        return
    job = job_of(session, flow.name)
    if isinstance(job, Unknown):
        yield f"whether mirror {carriers[0]} runs is not known: {job.error}. {job.todo}"
    elif job is not None and job.state in (JobState.RUNNING, JobState.STARTING) and flow.name in job.flows:
        what = f"mirror {job.name} runs with the flow, so its partitions have begun somewhere already"
        yield f"{what}. Look with reconciler mirror seek, or stop it before it is given a start"


def _world(session: Session, flow: Flow, mine: Mapping[tuple[str, int], int]) -> World:
    """Raises ClusterError, also when the source does not tell the offsets of a partition that has a position."""
    source, target = _side(session, flow.source), _side(session, flow.target)
    partitions, selector = source.partitions(), selector_of(flow)
    keys = {
        (name, number)
        for name, count in partitions.items()
        if selector.why_not(name) is None
        for number in range(count)
    }
    bounds = source.bounds(keys)
    if silent := sorted(key for key in mine if key in keys and key not in bounds):
        topic, number = silent[0]
        what = f"{flow.source} does not tell the offsets of {topic}-{number}"
        raise ClusterError(source.name, "other", what, "Perhaps its leader is away.", "Try again later.")
    return World(
        partitions,
        {key: (one.begin, one.end) for key, one in bounds.items()},
        target.positions(flow.name),
        frozenset(target.partitions()),
    )


def _written(session: Session, made: Imported) -> Imported:
    """Raises BlockedError for what stands against it, ReconcilerError when there is nothing to write."""
    if against := [f"flow {one.flow.name}: {why}." for one in made.flows for why in one.obstacles]:
        raise BlockedError("no position was taken over, no file was changed", "\n".join(against))
    wished = {one.flow.name: one.offsets for one in made.flows if one.offsets}
    if not wished:
        left = [f"  {one.subject}: {one.why}" for each in made.flows for one in each.left]
        shown = "\n".join([*left[:20], *([f"  and {len(left) - 20} more"] if len(left) > 20 else [])])
        what = "no position to take over, no file was changed"
        raise ReconcilerError(what, shown or "The offsets topic holds none.", "Look at --connector and --alias.")
    texts = write_starts(read_environment(session.folder), session.topology, wished)
    for file, text in texts.items():
        write_text(Path(file), text)
    return replace(made, files=tuple(texts))

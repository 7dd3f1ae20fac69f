"""``mirror import-positions``: reads MirrorMaker 2's positions, checks them, and writes them into the YAML.

It reads as the principal ``plan``, because access rules of other principals may not be applied yet, and writes to no
cluster.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backends.clusters.groups import Side
from reconciler.backends.clusters.mirrormaker import looks_like_offsets, read_in_flight, read_records, workers
from reconciler.backends.files import read_environment, write_text
from reconciler.environment.importers.positions.judge import (
    Inheritance,
    PositionAnswers,
    Records,
    inherit,
    positions,
    wanted,
)
from reconciler.environment.importers.positions.write_yaml import write_starts
from reconciler.errors import BlockedError, ClusterError, ReconcilerError, Unknown
from reconciler.model.environment.flow_settings import Isolation
from reconciler.model.environment.topology import Flow, Principal, TopicRef
from reconciler.model.options import CONNECTOR
from reconciler.operations.mirror.pause import job_of
from reconciler.operations.mirror.seek import unreported
from reconciler.operations.session.session import Session, open_session
from reconciler.replication.handover import AGAIN
from reconciler.replication.names import position_group
from reconciler.replication.offsets.in_flight import InFlight
from reconciler.resources.flows.routes import declared_flow, selector_of
from reconciler.text import counted

LOOK_AGAIN_S = 5.0
"""Seconds between two reads of positions. MirrorMaker 2 stores them only once a minute by default, so its workers are
checked, too."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The arguments of an import of positions. Empty fields mean the defaults of a dedicated MirrorMaker 2."""

    flow: str = ""
    offsets_topic: str = ""
    connector: str = CONNECTOR
    alias: str | None = None
    """A blank alias is blank in MirrorMaker 2's records, too (``source.cluster.alias =``), and its topics are named
    after the cluster."""
    on: str = ""
    """The cluster with the offsets topic."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome of an import of positions."""

    environment: str
    flows: tuple[Inheritance, ...]
    absent: Mapping[str, TopicRef]
    """Flow -> its missing offsets topic."""
    files: tuple[str, ...] = ()
    """The written files."""


def import_positions(folder: Path, request: ImportRequest, write: bool, say: Callable[[str], None]) -> Imported:
    """Imports positions; writes them if ``write``. Raises ReconcilerError before any file is changed, and BlockedError
    for obstacles, such as a running MirrorMaker 2."""
    with open_session(folder, Principal.PLAN) as session:
        flows = _flows(session, request)
        places = {flow.name: _place(flow, request) for flow in flows}
        first = _read(session, places)
        if not any(records is not None for records in first.values()):
            raise _no_offsets_topic(session, places)
        # Two looks at the stored positions: if they move meanwhile, MirrorMaker 2 still copies, and the mirror would
        # copy the same records beside it.
        say(f"looking again in {LOOK_AGAIN_S:.0f} s, to see whether MirrorMaker 2 still copies")
        time.sleep(LOOK_AGAIN_S)
        second = _read(session, places)
        looks = ((flow, first[flow.name], second[flow.name]) for flow in flows)
        judged = (_judged(session, flow, request, before, now) for flow, before, now in looks if before and now)
        absent = {name: place for name, place in places.items() if first[name] is None or second[name] is None}
        imported = Imported(session.topology.environment, tuple(judged), absent)
        if not write:
            return imported

        # Flows are imported together: an obstacle of one flow keeps all positions from being written.
        if against := [f"flow {each.flow.name}: {why}." for each in imported.flows for why in each.obstacles]:
            raise BlockedError("no position was taken over, no file was changed", "\n".join(against))
        starts = {each.flow.name: each.offsets for each in imported.flows if each.offsets}
        if not starts:
            lines = [f"  {item.subject}: {item.why}" for each in imported.flows for item in each.left]
            shown = "\n".join([*lines[:20], *([f"  and {len(lines) - 20} more"] if len(lines) > 20 else [])])
            problem, why = "no position to take over, no file was changed", shown or "The offsets topic holds none."
            todo = "Check --connector and --alias."
            if any(each.stopped for each in imported.flows):
                todo += " Or declare where each begins: start.offsets of the flow; start: again copies all of it again."
            raise ReconcilerError(problem, why, todo)
        texts = write_starts(read_environment(session.folder), session.topology, starts)
        for file, text in texts.items():
            write_text(Path(file), text)
        return replace(imported, files=tuple(texts))


def _flows(session: Session, request: ImportRequest) -> Sequence[Flow]:
    """The flows to import. Raises ReconcilerError if the options do not fit the environment."""
    declared = session.topology.flows
    if request.on and request.on not in session.topology.clusters:
        why = "The offsets topic is looked for there."
        todo = (
            f"Its clusters: {', '.join(session.topology.clusters) or 'none'}. Where it is that of Connect alone, add "
            "it to clusters with its bootstrap_servers; it needs no flow."
        )
        raise ReconcilerError(
            f"--on names {request.on}, which is no cluster of {session.topology.environment}", why, todo
        )
    why = "Positions are taken over by a flow."
    if request.flow:
        return [declared_flow(session.topology, request.flow, why)]
    if not declared:
        raise ReconcilerError("no flow is declared", why, "Declare the flow first.")
    if request.alias and len({flow.source for flow in declared.values()}) > 1:
        why, todo = "It is the name of one source.", "Name the flow, and take them one by one."
        raise ReconcilerError("--alias is given, and the flows have several sources", why, todo)
    return list(declared.values())


def _place(flow: Flow, request: ImportRequest) -> TopicRef:
    return TopicRef(
        request.on or flow.target, request.offsets_topic or f"mm2-offsets.{request.alias or flow.source}.internal"
    )


def _side(session: Session, cluster: str) -> Side:
    return Side(session.topology.clusters[cluster], Principal.PLAN)


def _read(session: Session, places: Mapping[str, TopicRef]) -> Mapping[str, Records | None]:
    """Flow -> records of its offsets topic; None if the topic is missing or hidden. Raises ClusterError if it cannot be
    read."""
    names = {cluster: _side(session, cluster).partitions() for cluster in {topic.cluster for topic in places.values()}}
    records = {
        place: positions(read_records(_side(session, place.cluster), place.name))
        for place in set(places.values())
        if place.name in names[place.cluster]
    }
    return {name: records.get(place) for name, place in places.items()}


def _no_offsets_topic(session: Session, places: Mapping[str, TopicRef]) -> ReconcilerError:
    """The error about a missing offsets topic; it names topics of all clusters that look like one."""
    topics = sorted(set(places.values()))
    alike: list[str] = []
    for cluster in sorted({flow for place in topics for flow in (place.cluster, *session.topology.clusters)}):
        try:
            names = _side(session, cluster).partitions()
        except ClusterError:
            alike.append(f"{cluster} could not be asked")
        else:
            alike += [f"{cluster}/{name}" for name in sorted(names) if looks_like_offsets(name)]
    return ReconcilerError(
        f"no offsets topic of MirrorMaker 2: {', '.join(map(str, topics))} is missing, or hidden from principal plan",
        f"Topics that look like one: {', '.join(alike) or 'none'}.",
        "Name it: reconciler mirror import-positions ENV --offsets-topic TOPIC --write; where they differ, also its "
        "cluster with --on, and MirrorMaker 2's alias of the source with --alias.",
    )


def _judged(session: Session, flow: Flow, request: ImportRequest, before: Records, now: Records) -> Inheritance:
    """The positions of one flow, with everything that speaks against writing them now. The expensive question comes
    last: what was in flight when MirrorMaker 2 ended."""
    alias = flow.source if request.alias is None else request.alias
    mine = wanted(now, request.connector, alias)
    place, names, world = _place(flow, request), (request.connector, alias), _world(session, flow, mine)
    judged = inherit(flow, place, now, names, world)
    obstacles, notes = list(judged.obstacles), list[str]()
    # Positions of a running MirrorMaker 2 are old as soon as they are read, and the flow would copy the rest twice.
    if moved := sum(wanted(before, request.connector, alias).get(key) != at for key, at in mine.items()):
        copies = f"MirrorMaker 2 still copies: {counted(moved, 'position')} moved within {LOOK_AGAIN_S:.0f} s"
        obstacles.append(f"{copies}. Stop it cleanly first, and look again")
    if not request.offsets_topic:
        group = f"{request.alias or flow.source}-mm2"
        try:
            state = workers(_side(session, judged.place.cluster), group)
        except ClusterError as error:
            notes.append(f"whether workers of MirrorMaker 2 are running is not known: {error.what}")
        else:
            if state is not None:
                problem = f"workers of MirrorMaker 2 are running: group {group} at {judged.place.cluster} is {state}"
                obstacles.append(f"{problem}. Stop them cleanly first, and look again")
    # ``start`` counts only for partitions without a position, which a running job has given them.
    carriers = [mirror.name for mirror in session.topology.mirrors.values() if flow.name in mirror.flows]
    job = job_of(session, flow.name) if carriers else None
    if isinstance(job, Unknown):
        obstacles.append(f"whether mirror {carriers[0]} runs is not known: {job.with_todo}")
    elif job is not None and job.state.runs and flow.name in job.flows:
        problem = f"mirror {job.name} runs with the flow, so its partitions have begun somewhere already"
        obstacles.append(
            f"{problem}. Check with reconciler mirror seek ENV {flow.name} --topic T, or stop it before it is given a"
            " start"
        )

    # Offsets inside a transaction are looked up last, since only this check reads records.
    if not obstacles:
        stored = {(topic, number): at for topic, each in judged.offsets.items() for number, at in each.items()}
        fresh = dict.fromkeys(_without_position(flow, judged, world))
        known = _in_flight(session, flow, {**stored, **fresh})
        in_flight, beginnings = ({key: known[key] for key in keys} for keys in (stored, fresh))
        judged = inherit(flow, place, now, names, replace(world, in_flight=in_flight, beginnings=beginnings))
    return replace(judged, obstacles=tuple(obstacles), notes=(*judged.notes, *notes))


def _without_position(flow: Flow, judged: Inheritance, world: PositionAnswers) -> Iterator[tuple[str, int]]:
    """Partitions without a position that has records in its copy, where the mirror would stop: MirrorMaker 2 may have
    ended before it stored a position. Flows with same offsets or provenance find the place by other means."""
    start = flow.start
    if flow.keeps_offsets or flow.provenance is not None or start.unnamed == AGAIN:
        return
    for topic in judged.topics:
        named = (start.offsets or {}).get(topic.name, {})
        if topic.remote in world.remotes:
            yield from ((topic.name, number) for number in topic.fresh if number not in named)


def _in_flight(
    session: Session, flow: Flow, wanted: Mapping[tuple[str, int], int | None]
) -> Mapping[tuple[str, int], InFlight | str]:
    """Records in flight at the positions, read as plan, or as the mirror where plan lacks the right."""
    remote, committed = selector_of(flow).remote_name, flow.isolation is Isolation.READ_COMMITTED
    known: dict[tuple[str, int], InFlight | str] = {}
    for principal in (Principal.PLAN, Principal.MIRROR):
        unread = {key: at for key, at in wanted.items() if isinstance(known.get(key, ""), str)}
        clusters = (session.topology.clusters[name] for name in (flow.source, flow.target))
        source, target = (Side(cluster, principal) for cluster in clusters)
        known |= read_in_flight((source, target), unread, remote, committed=committed)
    return known


def _world(session: Session, flow: Flow, mine: Mapping[tuple[str, int], int]) -> PositionAnswers:
    """Answers of both clusters. Raises ClusterError, also if the source does not report the offsets of a partition with
    a position."""
    source, target = _side(session, flow.source), _side(session, flow.target)
    names, selector = source.partitions(), selector_of(flow)
    carried = {name: count for name, count in names.items() if selector.why_not(name) is None}
    keys = {(name, number) for name, count in carried.items() for number in range(count)}
    bounds = source.bounds(keys)
    if silent := sorted(key for key in mine if key in keys and key not in bounds):
        raise unreported(source, *silent[0])
    begins_and_ends = {key: (its.begin, its.end) for key, its in bounds.items()}
    own = {key: at.offset for key, at in target.committed(position_group(flow.state_name)).items()}
    return PositionAnswers(names, begins_and_ends, own, frozenset(target.partitions()))

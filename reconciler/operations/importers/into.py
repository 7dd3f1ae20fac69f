"""``import --into``: adds MirrorMaker 2's clusters and flows to an environment, and changes nothing that is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from reconciler.backends.files import environment_name, read_environment, write_texts
from reconciler.environment.importers.mirrormaker.environment import ImportedEnvironment
from reconciler.environment.load import load
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Cluster, Flow, Topology
from reconciler.text import counted

FILE = "imported"


@dataclass(frozen=True, slots=True)
class Added:
    """``path``: the file that was written, None where nothing is missing. ``left``: what was left alone, and why."""

    path: Path | None
    flows: tuple[str, ...]
    left: tuple[str, ...]


def add(imported: ImportedEnvironment, asked: Topology, folder: Path) -> Added:
    """``asked``: what the import alone declares. Raises ReconcilerError, and then nothing is written."""
    there = read_environment(folder)
    known = load(there, environment_name(folder), expired_too=True)
    _require_same_clusters(known, asked)
    left = tuple(_left_alone(known, asked))
    clusters = [name for name in asked.clusters if name not in known.clusters]
    flows = [flow.name for flow in asked.flows.values() if _declared(known, flow) is None]
    if not clusters and not flows:
        return Added(None, (), left)
    names = chain((f"{FILE}.yaml",), (f"{FILE}-{number}.yaml" for number in count(2)))
    path = next(folder / name for name in names if not (folder / name).exists())
    text = imported.text_of(clusters, flows)
    try:
        load({**there, str(path): text}, environment_name(folder), expired_too=True)
    except TopologyError as error:
        lines = "\n".join(str(problem) for problem in error.problems)
        todo = f"Correct the files in {folder}, or MirrorMaker 2's, and import again."
        raise ReconcilerError(
            lines, "Together with the files in the folder it is not valid; nothing was written.", todo
        ) from None
    write_texts({path: text})
    return Added(path, tuple(flows), left)


def _declared(known: Topology, flow: Flow) -> Flow | None:
    """The flow of the same name, or of the same two clusters."""
    ends = (flow.source, flow.target)
    alike = (other for other in known.flows.values() if (other.source, other.target) == ends)
    return known.flows.get(flow.name) or next(alike, None)


def _require_same_clusters(known: Topology, asked: Topology) -> None:
    """One address in common is one cluster: a broker belongs to no two."""
    apart = [
        f"cluster {name} has {_addresses(known.clusters[name])} in {known.clusters[name].where}, and "
        f"{_addresses(cluster)} in MirrorMaker 2's file"
        for name, cluster in asked.clusters.items()
        if name in known.clusters and set(known.clusters[name].bootstrap_servers).isdisjoint(cluster.bootstrap_servers)
    ]
    if apart:
        raise ReconcilerError(
            "\n".join(apart),
            "Under one name that may be two clusters, and the flow would copy from another one. Nothing was written.",
            "Add the address that is right to both, or give the cluster another alias in MirrorMaker 2's file.",
        )


def _addresses(cluster: Cluster) -> str:
    return ", ".join(cluster.bootstrap_servers)


def _left_alone(known: Topology, asked: Topology) -> Iterator[str]:
    for name, cluster in asked.clusters.items():
        if (there := known.clusters.get(name)) is None:
            continue
        more = sorted(set(cluster.bootstrap_servers) - set(there.bootstrap_servers))
        words = f"; MirrorMaker 2's file has {', '.join(more)} as well" if more else ""
        client = "; its client settings and principals are not changed" if cluster.client else ""
        yield f"cluster {name}: declared at {there.where}{words}{client}"
    for flow in asked.flows.values():
        if (other := _declared(known, flow)) is not None:
            of = "" if other.name == flow.name else f" as {other.name}"
            differ = _differences(other, flow)
            words = f", where {', '.join(differ)} differ: compare them yourself" if differ else ""
            yield f"flow {flow.name}: declared{of} at {other.where}{words}"


def _differences(there: Flow, asked: Flow) -> Sequence[str]:
    pairs: Mapping[str, tuple[object, object]] = {
        "topics": (there.topics, asked.topics),
        "exclude_topics": (there.exclude_topics, asked.exclude_topics),
        "naming": (there.naming, asked.naming),
        "groups": (there.groups, asked.groups),
        "replication_factor": (there.replication_factor, asked.replication_factor),
        "start": (there.start, asked.start),
        "sync_topic_configs": (there.configs, asked.configs),
        "access": (there.access, asked.access),
        "mirrormaker_topics": (there.mirrormaker_topics, asked.mirrormaker_topics),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def said_of(added: Added, folder: Path) -> Iterator[str]:
    if added.path is None:
        yield f"nothing is missing in {shlex.quote(str(folder))}; no file was written"
    else:
        flows = f"{counted(len(added.flows), 'flow')} ({', '.join(added.flows)})" if added.flows else "no flow"
        yield f"wrote {added.path}: {flows}; validate accepts it together with the files in the folder"
    if added.left:
        yield f"left alone, because it is declared already ({len(added.left)}):"
        yield from (f"  {words}" for words in added.left)

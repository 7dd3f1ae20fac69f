"""Pauses of a mirror whose status cluster changed, or of a flow that another mirror had: they are written where its job
reads them before it starts, and are deleted where they were once it copies, so that a resume is not undone by the next
start."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.backends.mirror_jobs.status.records import StatusRecords, write_records
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from reconciler.resources.flows.renames import state_of
from reconciler.text import counted, first_of

SHOWN = 3


@dataclass(frozen=True, slots=True)
class MovedPauses:
    """``there``: by the cluster that kept them until now."""

    topology: Topology
    place: str
    there: Mapping[str, Mapping[Scope, Pause]]

    def lines(self) -> Iterator[str]:
        """What ``carry`` does, for a plan."""
        for cluster, pauses in self.there.items():
            scopes = first_of([str(scope) for scope in sorted(pauses)], SHOWN)
            place = f"{self.place}, now the status cluster of its mirror"
            yield f"{counted(len(pauses), 'pause')} on {cluster} will be carried over to {place}: {scopes}"

    def carry(self, say: Callable[[str], None]) -> None:
        """Raises ClusterError."""
        for cluster, pauses in self.there.items():
            for scope in sorted(pauses):
                say(f"{scope} stays paused: its pause is carried over from {cluster} to {self.place}")
            self._write(self.place, {scope: dumps(pause) for scope, pause in pauses.items()})

    def forget(self) -> None:
        """Raises ClusterError."""
        for cluster, pauses in self.there.items():
            self._write(cluster, dict.fromkeys(pauses))

    def _write(self, cluster: str, values: Mapping[Scope, bytes | None]) -> None:
        topology = self.topology
        names = (topology.environment, *topology.moved_from)
        keys = {
            pause_key(name, scope): value
            for scope, value in values.items()
            for name in (names if value is None else names[:1])
        }
        write_records(topology.clusters[cluster], Principal.APPLY, keys)


def status_place(handover: Mapping[str, Any]) -> str:
    """The alias of the cluster that its job reports to; empty where it is not known."""
    try:
        return str(handover["status"]["cluster"]["name"])
    except (LookupError, TypeError):
        return ""


def moved_pauses(
    topology: Topology,
    records: Mapping[str, StatusRecords],
    mirror: Mirror,
    handover: Mapping[str, Any],
    say: Callable[[str], None],
) -> MovedPauses:
    """``handover``: what its job had last, empty where that is not known. Raises ClusterError where its status cluster
    does not answer, and RunnerError where the former one does not."""
    # A flow whose job kept its status on the same cluster has its pauses there. Only flows that are new to this mirror,
    # or whose mirror moved to another cluster, may have left pauses elsewhere.
    place = topology.status_cluster(mirror)
    before = status_place(handover)
    states = {flow.state_name for flow in topology.flows_of(mirror)}
    if before == place:
        states -= {state_of(flow) for flow in handover.get("flows", ())}
    others: Sequence[str] = sorted(records.keys() - {place}) if states else ()
    held = records[place].pauses() if others else {}
    # The cluster that kept them last must answer, or what is paused there would be copied. Others are only named.
    there: dict[str, Mapping[Scope, Pause]] = {}
    for cluster in others:
        try:
            pauses = records[cluster].pauses()
        except ClusterError as error:
            problem = f"whether {cluster} keeps pauses of flows of mirror {mirror.name} is not known: {error.what}"
            if cluster == before:
                raise RunnerError(
                    problem,
                    f"Its status is written on {place} from now on, and was on {cluster}: what is paused there would "
                    "be copied",
                    f"Run apply again once {cluster} answers. If it is gone, take it out of the files.",
                ) from None
            if error.kind != "denied":  # of a missing topic, too, and only for its own mirrors' logins
                say(problem)
            continue
        mine = {scope: pause for scope, pause in pauses.items() if scope.flow in states and scope not in held}
        if mine:
            there[cluster] = mine
    if before and before not in topology.clusters:
        say(f"mirror {mirror.name} kept its pauses on {before}, which the files no longer name: pause again what was")
    return MovedPauses(topology, place, there)

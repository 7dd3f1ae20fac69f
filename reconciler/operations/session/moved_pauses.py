"""Moves pauses when a mirror gets another status cluster, or a flow another mirror. They are written to the new place
before the job starts there, and deleted from the old one once it copies, so that the next start does not undo a
resume."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.backends.mirror_jobs.status.records import StatusRecords, write_records
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from reconciler.resources.flows.renames import state_of
from reconciler.text import BRIEF, counted, first_of


@dataclass(frozen=True, slots=True)
class MovedPauses:
    """``there``: former cluster -> its pauses."""

    topology: Topology
    place: str
    there: Mapping[str, Mapping[Scope, Pause]]

    def lines(self) -> Iterator[str]:
        """Words for a plan about the effect of ``carry``."""
        for cluster, pauses in self.there.items():
            scopes = first_of([str(scope) for scope in sorted(pauses)], BRIEF)
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
    """The alias of the cluster that a job reports to; empty if unknown."""
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
    """``handover``: the last hand-over of the mirror's job, empty if unknown. Raises ClusterError if its status cluster
    does not answer, and RunnerError if the former one does not."""
    # Jobs keep pauses beside their status record. So only flows that are new to this mirror, or all flows of a mirror
    # with a new status cluster, may have pauses elsewhere.
    place = topology.status_cluster(mirror)
    before = status_place(handover)
    states = {flow.state_name for flow in topology.flows_of(mirror)}
    if before == place:
        states -= {state_of(flow) for flow in handover.get("flows", ())}
    others: Sequence[str] = sorted(records.keys() - {place}) if states else ()
    held = records[place].pauses() if others else {}
    # The former status cluster must answer, or a flow that is paused there would start to copy. Other clusters may hold
    # pauses only from before that, so a failed read is only reported.
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
            if error.kind != "denied":  # brokers also deny a missing topic, or one of other mirrors
                say(problem)
            continue
        moved = {scope: pause for scope, pause in pauses.items() if scope.flow in states and scope not in held}
        if moved:
            there[cluster] = moved
    if before and before not in topology.clusters:
        say(f"mirror {mirror.name} kept its pauses on {before}, which the files no longer name: pause again what was")
    return MovedPauses(topology, place, there)

"""Syncs the offsets of a flow's consumer groups to the target: a thread of the driver for each flow.

Its pace keeps it below ``SHARE`` of a core. A failure is a condition of the flow and is retried; copying does not wait
for it.
"""

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError, SettingError, WireError, name_of
from reconciler.replication.handover import FlowSettings, GroupSettings
from reconciler.replication.mirrormaker_records import Checkpoint, checkpoints_topic
from reconciler.replication.offsets.checkpoints import CheckpointLog
from reconciler.replication.offsets.map_topic import MapReader
from reconciler.replication.status import GroupSyncStatus
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.groups.round import GroupRounds, RoundResult
from reconciler_mirror.groups.translators import AsCommitted, BothWays, GapCloser
from reconciler_mirror.model.lane import GRANTS, Condition, PartitionSpec

SHARE = 0.046
"""Largest share of a core: the CPU time of a round determines the pause after it."""
PAUSE_FIRST, PAUSE_LAST = 1.0, 30.0
_NAMED = 5
_log = logs.logger("groups")

Specs = Callable[[], tuple[PartitionSpec, ...]]
Report = Callable[[GroupSyncStatus, tuple[Condition, ...]], None]


class GroupSync:
    """``start`` it after the flow's takeover; ``stop`` ends it after the current round."""

    def __init__(
        self, flow: FlowSettings, groups: GroupSettings, specs: Specs, report: Report, unpaused: Specs | None = None
    ) -> None:
        """``specs`` gives the flow's present partitions, ``unpaused`` the ones without a pause (None: all); ``report``
        takes the result of each round."""
        self._flow, self._groups, self._specs, self._report = flow, groups, specs, report
        self._unpaused = unpaused or specs
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"groups {flow.name}", daemon=True)
        self._status = GroupSyncStatus()
        self.rounds = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, patience_s: float = 5.0) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def _run(self) -> None:
        pause = PAUSE_FIRST
        while not self._end.is_set():
            before = self.rounds
            try:
                asyncio.run(self._rounds())
            except (WireError, SettingError, LookupError) as error:
                todo = "Check the cluster named. It stops no records, and is retried automatically."
                if isinstance(error, BrokerError) and error.code in DENIED:
                    todo = f"Give the mirror's principal its rights on groups: {GRANTS}. It is retried automatically."
                text = f"group offsets of {self._flow.name} are not synced now: {error}"
                self._report(self._status, (Condition("groups_not_synced", text, todo),))
            except Exception:  # noqa: BLE001  # the thread must live
                _log.exception("bug while syncing groups; retrying", flow=self._flow.name)
            pause = PAUSE_FIRST if self.rounds > before else min(PAUSE_LAST, pause * 2)
            self._end.wait(pause)

    async def _rounds(self) -> None:
        """Runs rounds on the same connections, until one fails or a stop is requested."""
        flow, groups = self._flow, self._groups
        clusters: list[ClusterClient] = []
        try:
            clusters += [cluster_of(flow.source), cluster_of(flow.target)]
            source, target = clusters
            checkpoints = CheckpointLog(
                target, checkpoints_topic(flow.source.cluster, flow.mirrormaker.separator or flow.naming.separator)
            )
            maps = MapReader(target, flow.state_name)
            committed = flow.isolation == "read_committed"
            further: BothWays | GapCloser | AsCommitted = GapCloser(
                flow.state_name, (source, target), committed=committed
            )
            returning: GroupRounds | None = None
            # Offsets that are equal on both sides may also travel back, from groups that commit at the target.
            if flow.keeps_offsets:
                further = AsCommitted(target)
                if groups.both_ways:
                    returning = GroupRounds(groups, target, source, {}, AsCommitted(source))
            elif groups.returning:
                further = BothWays((flow.state_name, groups.returning), (source, target), maps)
            rounds = GroupRounds(groups, source, target, await checkpoints.read(), further)
            while not self._end.is_set():
                began, cpu = time.monotonic(), time.thread_time()
                if not flow.keeps_offsets:
                    await maps.refresh()
                # The flow's partitions may have changed since the last round.
                read_ms = int(time.time() * 1000)
                specs = self._specs()
                routes = {(spec.topic, spec.partition): spec.target_topic for spec in specs}
                with _no_collection():
                    round_result = await rounds.run(routes, maps, checkpoints.write)
                    if returning is not None:
                        back = await returning.run(returning_routes(self._unpaused()), maps, _no_checkpoints)
                        round_result = together(round_result, back)
                self._report_round(round_result, read_ms, time.thread_time() - cpu)
                # A round that took much CPU time is followed by a longer pause, which keeps ``SHARE``.
                until = began + max(groups.interval_ms / 1000, (time.thread_time() - cpu) / SHARE)
                while not self._end.is_set() and (seconds_left := until - time.monotonic()) > 0:
                    await asyncio.sleep(min(seconds_left, 0.2))
        finally:
            for cluster in clusters:
                cluster.close()

    def _report_round(self, round_result: RoundResult, read_ms: int, cpu: float) -> None:
        """Adds the round to the totals of the last status. ``read_ms``: when the round read the source, so that later
        commits are not in it. ``cpu``: seconds of CPU time."""
        before = self._status
        self.rounds += 1
        self._status = GroupSyncStatus(
            groups=round_result.groups,
            active=len(round_result.active),
            unsupported=len(round_result.unsupported),
            inexact=round_result.inexact,
            written_total=before.written_total + round_result.written,
            checkpoints_total=before.checkpoints_total + len(round_result.checkpoints),
            read_ms=read_ms,
            cpu_seconds=round(before.cpu_seconds + cpu, 3),
        )
        self._report(self._status, tuple(_conditions(self._flow, round_result)))


def returning_routes(specs: Iterable[PartitionSpec]) -> dict[Key, str]:
    """Target partition -> source topic, for partitions without a pause: after a failover both sides may have different
    records at the same offset, and then a group's offset no longer means the same on both."""
    return {(spec.target_topic, spec.partition): spec.topic for spec in specs}


def together(out: RoundResult, back: RoundResult) -> RoundResult:
    """The results of both directions in one. A group with members on one side is left alone only there; the figures
    about groups are those of the way out."""
    return replace(out, written=out.written + back.written, refused={**out.refused, **back.refused})


async def _no_checkpoints(_: Sequence[Checkpoint]) -> None:
    """Writes none: as in MirrorMaker 2, only the way out has checkpoints."""


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Disables garbage collection: a round makes tens of thousands of objects without cycles, and collections would
    take half of its time. When rounds of several flows overlap, the first to end enables it again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _conditions(flow: FlowSettings, round_result: RoundResult) -> Iterator[Condition]:
    """Conditions of a round, each with the names of a few groups. A condition ends with the first round that no longer
    yields it."""
    target = flow.target.cluster
    if round_result.unsupported:
        yield Condition(
            "groups_unsupported",
            _first_few({f"{group} {why.value}" for group, why in round_result.unsupported.items()}, "; "),
            "Move these applications yourself, or exclude them under groups.exclude of the flow.",
        )
    if refused := round_result.refused:
        why = ", ".join(sorted({name_of(code) for code in refused.values()}))
        todo = "It is retried automatically."
        if any(code in DENIED for code in refused.values()):
            todo = f"Give the mirror's principal READ on these groups and on their topics at {target}: {GRANTS}."
        names = _first_few(set(refused), ", ")
        yield Condition("groups_refused", f"{target} did not take the offsets of {names}: {why}", todo)
    if gaps := round_result.gaps:
        why = _first_few({f"{group} in {reason}" for group, reason in gaps.items()}, "; ")
        yield Condition(
            "groups_inexact",
            f"groups with an earlier offset on {target} than the exact one, or none: {len(gaps)}. {why}",
            "From an earlier offset nothing is missed: after a failover some records are read again. Over once the "
            "groups have committed further, or once a recreated topic is copied.",
        )


def _first_few(names: set[str], separator: str) -> str:
    """The first few names, and the number of the others."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return separator.join(sorted(names)[:_NAMED]) + more

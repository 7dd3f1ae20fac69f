"""Conditions of a flow or of several of its partitions, and the log of all conditions."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from reconciler.kafka.client.errors import DENIED, BrokerError, SettingError, name_of
from reconciler.replication.handover import FlowSettings
from reconciler.replication.names import ConditionCode, OwnTopics, runbook_of
from reconciler.replication.status import ReportedLoss
from reconciler_mirror import log_lines as logs
from reconciler_mirror.model.lane import GRANTS, Condition, LaneSpec
from reconciler_mirror.model.views import FlowView

STALLED_S = 30.0
"""Seconds: longer than any commit, and than most pauses between retries."""


def partitions_stalled(topic: str, stalled: Sequence[tuple[int, int | None]], *, others_move: bool) -> Condition:
    """For partitions that no other condition explains: the driver's own look at positions, in case a lane fails to say
    what is wrong. ``stalled``: partitions and their lag in records, None while unknown. ``others_move``: their lanes
    copy other partitions, so these may only be waiting for their turn."""
    numbers = sorted(number for number, _ in stalled)
    single = len(numbers) == 1
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    ranges = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    lags = [lag for _, lag in stalled]
    known = sum(lag for lag in lags if lag is not None)
    behind = f"{known:,} records behind"
    if None in lags:
        behind = f"how far behind is not known{f', at least {known:,} records' if known else ''}"
    why = "others of the same lanes are copied" if others_move else "no reason is known"
    return Condition(
        "partition_stalled",
        f"{topic}, partition{'' if single else 's'} {ranges}, {'has' if single else 'have'} not moved for "
        f"{STALLED_S:.0f} s, {behind}; {why}",
        "Check the brokers that lead them at the source and at the target, and the log of the job. If it stays: "
        "reconciler mirror stop ENV FLOW, then apply.",
        topic,
        numbers[0] if single else None,
        stops=not others_move,
    )


def setting_refused(flow: str, error: SettingError) -> Condition:
    """The flow is not copied until the settings of a cluster are edited."""
    return Condition(
        "setting_not_supported",
        f"{flow} is not copied: {error}",
        "Edit the client settings of that cluster, run reconciler validate ENV, then apply.",
        stops=True,
    )


def waits_for_positions(copier: str, cluster: str, group: str, old: int, within_s: float) -> Condition:
    """``copier``: the flow or lane that waits. ``old``: number of positions older than a former commit.
    ``within_s``: for how long they are read again."""
    return Condition(
        "positions_undecided",
        f"{copier} is not copied yet: for {old} partitions {cluster} returns positions in group {group} "
        "that are older than what had been committed, or none. A group coordinator that has just started may still "
        "read them",
        f"They are asked for again automatically, for up to {within_s:.0f} s. Then the others are copied, and "
        "those stop with position_missing or position_regressed, which say where to continue.",
        stops=True,
    )


def takeover_refused(flow: FlowSettings, error: Exception) -> Condition:
    """``error``: the target's answer while the takeover fenced lanes or read positions."""
    target = flow.target
    denied = isinstance(error, BrokerError) and error.code in DENIED
    todo = f"Check {', '.join(target.bootstrap_servers)}."
    if denied:
        todo = (
            f"Give the mirror's principal its rights there (transactional ids mirror.{flow.state_name}.*, group "
            f"mirror.{flow.state_name}): {GRANTS}."
        )
    return Condition(
        "permission_denied" if denied else "target_unreachable",
        f"{flow.name} is not copied yet: {target.cluster} did not let the mirror fence and read positions: {error}",
        f"{todo} It is retried automatically.",
        stops=True,
    )


def offset_map_missing(spec: LaneSpec, code: int) -> Condition:
    """``code``: Kafka's error code for a write or read of the map. Copying continues: the map serves consumers
    and later checks, and positions carry their own proof."""
    topic = OwnTopics(spec.target.topic_prefix).offsets
    return Condition(
        "offset_map_missing",
        f"{spec.flow} is copied, but {spec.target.cluster} answers {name_of(code)} for {topic}: which offsets "
        "copies have is not written down. Groups are not synced exactly, a failover cannot translate their offsets, "
        "and a lost position or a shortened log is harder to tell",
        f"Run reconciler apply ENV: it creates the topic. If it is there: {GRANTS}.",
    )


def metrics_not_served(host: str, port: int, why: str) -> Condition:
    """Reported once the port was refused for longer than a restart takes, in which the former application keeps it."""
    return Condition(
        "metrics_not_served",
        f"metrics are not served at {host}:{port}: {why}. Prometheus sees nothing of this mirror, so no alert on it "
        "fires but the one for an absent job; records are copied",
        "Choose another metrics_port or metrics_host of the mirror and run reconciler apply ENV, or end the program "
        f"that listens on port {port}. It is tried again automatically.",
    )


def executor_unfit(problems: Iterable[str]) -> Condition:
    """For an executor with lanes of the flow. Stops nothing itself: a lane that cannot copy has its own condition."""
    return Condition(
        "executor_unfit",
        "; ".join(problems),
        "Fix it on that machine, or keep the mirror off it. It is checked again every 30 s.",
    )


_log = logs.logger("condition")
_Key = tuple[str, ConditionCode, str | None, int | None]


class ConditionLog:
    """``log_changes`` takes each view of the board, and logs only the changes since the last one."""

    def __init__(self, docs_url: str = "") -> None:
        self._docs_url = docs_url
        self._holding: dict[_Key, Condition] = {}
        self._lost: dict[tuple[str, str], ReportedLoss] = {}

    def log_changes(self, flows: Sequence[FlowView]) -> None:
        """Logs a line when a condition begins, one when it ends, and one whenever a loss grows; a lasting condition is
        in the status record, not in the log again. Keys exclude the text, because its figures change all the time."""
        now = {
            (view.settings.name, condition.code, condition.topic, condition.partition): condition
            for view in flows
            for condition, _ in view.conditions
        }
        for key in now.keys() - self._holding.keys():
            condition = now[key]
            _log.warning(
                "condition",
                **_place(key),
                stops=condition.stops,
                text=condition.text,
                todo=condition.todo,
                runbook=runbook_of(condition.code, self._docs_url),
            )
        # Losses are counted apart from conditions: a flow that continues after one has no condition any more.
        for key in self._holding.keys() - now.keys():
            _log.info("condition over", **_place(key))
        self._holding = now
        for view in flows:
            for loss in view.figures.lost:
                flow = view.settings.name
                known = self._lost.get((flow, loss.code), ReportedLoss(loss.code, 0))
                if loss != known:
                    self._lost[flow, loss.code] = loss
                    more = {"offsets": loss.offsets - known.offsets, "records": loss.records - known.records}
                    totals = {"lost_offsets": loss.offsets, "lost_records": loss.records, "lost_batches": loss.batches}
                    _log.warning("continued after a loss", flow=flow, code=loss.code, **more, **totals, text=loss.text)


def _place(key: _Key) -> dict[str, str | int]:
    flow, code, topic, partition = key
    named = {"flow": flow, "code": code, "topic": topic, "partition": partition}
    return {name: value for name, value in named.items() if value is not None}

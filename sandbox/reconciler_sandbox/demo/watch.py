"""Watches the mirror job of the demo: ``reconciler status``, and its status records in Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from reconciler.replication.names import STATUS_TOPIC
from reconciler_sandbox.demo import read_topic as reading
from reconciler_sandbox.demo.read_topic import PartitionSpan
from reconciler_sandbox.demo.shell import Shell, shown
from reconciler_sandbox.errors import SandboxError

MIRROR, FLOW = "west", "east-to-west"
_POLL_S = 1.0
_STUCK_S = 180.0
_REPORT_S = 30.0


@dataclass(frozen=True, slots=True)
class CaughtUpFlow:
    """The flow once it has caught up. ``records`` and ``seconds`` are the running application's own account."""

    application_id: str
    records: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0


def wait_caught_up(shell: Shell, environment: Path, topics: int) -> CaughtUpFlow:
    """Returns when ``status --format json`` says that at least ``topics`` topics travel and none is behind.

    Raises SandboxError when nothing moves for three minutes, with what the job says.
    """
    words = ("status", shown(environment), "--format", "json")
    shell.say(f"\nwaiting until `reconciler {' '.join(words)}` says records_lag 0", "dim")
    best, moved_at = -1, time.monotonic()
    with shell.progress("mirrored") as update:
        while True:
            mirror = shell.ask(*words)["mirrors"].get(MIRROR, {})
            flow = mirror.get("flows", {}).get(FLOW, {})
            lag, copied = flow.get("records_lag"), flow.get("records_total", 0)
            if lag is not None:
                update(copied, copied + lag)
            if mirror.get("state") == "running" and lag == 0 and flow.get("topics", 0) >= topics:
                seconds = time.time() - mirror["started_at_ms"] / 1000
                return CaughtUpFlow(mirror["application_id"], flow["records_total"], seconds)
            if copied > best:
                best, moved_at = copied, time.monotonic()
            elif time.monotonic() - moved_at > _STUCK_S:
                raise _stuck(environment, mirror, flow)
            time.sleep(_POLL_S)


def _stuck(environment: Path, mirror: Mapping[str, Any], flow: Mapping[str, Any]) -> SandboxError:
    conditions = [f"  {item['code']}: {item['text']}. {item['todo']}" for item in flow.get("conditions", [])]
    state = f"The mirror is {mirror.get('state')}, {flow.get('records_lag')} records behind. {mirror.get('detail', '')}"
    log = environment.parent / ".reconciler" / environment.name / MIRROR / "job.log"
    why, todo = "\n".join([state, *conditions]), f"Read its log: {shown(log)}"
    return SandboxError(f"the mirror copied nothing for {_STUCK_S:.0f} s and has not caught up", why, todo)


def status_mark(client: Mapping[str, str]) -> tuple[PartitionSpan, ...]:
    """A place in the job's status records, for ``applications_since``."""
    return reading.spans(client, [STATUS_TOPIC])


def applications_since(client: Mapping[str, str], mark: tuple[PartitionSpan, ...]) -> tuple[str, ...]:
    """Every application id that reported itself running after the mark, in order. Two ids: one restart."""
    ends = {span.partition: span.end for span in mark}
    fresh = [
        PartitionSpan(span.topic, span.partition, ends.get(span.partition, span.start), span.end)
        for span in reading.spans(client, [STATUS_TOPIC])
    ]
    reports = (json.loads(message.value()) for message in reading.records(client, fresh) if message.value())
    running = (report for report in reports if report["mirror"] == MIRROR and report["state"] == "running")
    return tuple(dict.fromkeys(report["application_id"] for report in running))


def wait_for_report(client: Mapping[str, str], mark: tuple[PartitionSpan, ...]) -> tuple[str, ...]:
    """``applications_since``, waiting for the first report. Raises SandboxError when none comes."""
    deadline = time.monotonic() + _REPORT_S
    while not (names := applications_since(client, mark)):
        if time.monotonic() > deadline:
            why = "Whether it was restarted is not known."
            todo = "Check it with: reconciler status environments/sandbox"
            raise SandboxError(f"the mirror wrote no status record for {_REPORT_S:.0f} s", why, todo)
        time.sleep(0.3)
    return names


def alter_by_hand(client: Mapping[str, str], topic: str, key: str, value: str) -> None:
    """One config of one topic, behind git's back."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({**client, "log_level": "0"})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)

"""The role of the mirror, as a user that may do exactly that on both sides: enough to copy and to verify; and without
one rule, told so, and nothing lost or doubled once the rule is back.

``make test-least-privilege`` takes away every rule in turn.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver.discovery import Discovery, WireTopics
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Discovered, LaneProgress, lane_spec
from reconciler_mirror.report.status import StatusWriter
from reconciler_mirror.verify.bounds import bounds_of
from reconciler_mirror.verify.in_order.compare import Continued, compared
from reconciler_mirror.verify.model import TimeWindow
from reconciler_mirror.verify.tasks import each
from reconciler_sandbox.handles import Sandbox

from reconciler.model.principals import AclBinding, Operation, ResourceType
from reconciler.replication.handover_reader import parse
from tests.support.access.role_users import DENIED, PASSWORD, WHOLE, RoleUser, mirror_rules, title
from tests.support.jobs.records import digest, write_awkward
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_runs import UntilControl, caught_up

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800 if WHOLE else 300)]
PATIENCE_S = 25.0
HIDDEN = "no topic: a broker hides those that it may not describe"
"""What a lane cannot tell from a flow without topics; plan and doctor can (decision 93)."""
Kind = tuple[str, ResourceType, Operation]
CHOSEN: tuple[Kind, ...] = (
    ("east", ResourceType.TOPIC, Operation.READ),
    ("west", ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
)


class Mirror:
    """One flow, as its own principal."""

    def __init__(self, sandbox: Sandbox, users: Mapping[str, RoleUser], topic: str, status: str) -> None:
        self.handles = {name: sandbox[name] for name in ("east", "west")}
        flow = {**handover()["flows"][0], "name": topic, "topics": [topic], "lanes": 1}
        flow |= {"source": place(users["east"]), "target": place(users["west"])}
        flow |= {"start": {"kind": "timestamp", "timestamp_ms": 0}}
        where = {"cluster": place(users["west"]), "topic": status, "key": "x"}
        self.settings = parse(json.dumps(handover(flows=[flow], status=where)))
        self.topic = topic

    def copied(self) -> str:
        """All there is, or in words why not."""
        [flow] = self.settings.flows
        words: list[str] = []
        try:
            found = Discovery(flow, flow.selector(), (WireTopics(flow.source), WireTopics(flow.target))).look(
                Discovered()
            )
            if found.conditions or not found.complete:
                return " ".join(condition.text for condition in found.conditions)
            if not found.specs:
                return HIDDEN
            took = WireTakeover(flow)
            took.prepare()
            claim = took.take("app", found.specs).claim
            took.close()
            control = UntilControl(found.specs, caught_up_or_stopped, PATIENCE_S)
            report = batch_path(replace(lane_spec(flow, 0), claim=claim, partitions=found.specs), control)
            words += [condition.text for progress in control.reports[-1:] for condition in progress.conditions]
            words += [str(report)] if not control.reports or not caught_up(control.reports[-1]) else []
        except Exception as error:  # noqa: BLE001 - whatever a job would log and try again
            words.append(f"{type(error).__name__} {error}")
        with closing(StatusWriter(self.settings.status)) as status:
            if not words and not status.write({"a": 1}):
                words.append("the status may not be written")
        return " ".join(words)

    def verified(self) -> str:
        """``equal``, ``different``, or in words why nobody knows."""
        bounds = bounds_of(self.settings.flows[0], TimeWindow(), {})
        if bounds.unread or not bounds.ranges:
            return " ".join(f"{unread.reason}. {unread.todo}" for unread in bounds.unread)
        rows = list(each(compared, [*map(Continued, bounds.ranges)]))
        errors = [row.error for row in rows if row.error]
        return " ".join(errors) or ("different" if any(row.differing for row in rows) else "equal")

    def is_whole(self) -> bool:
        """By a stranger's eyes."""
        east, west = self.handles["east"], self.handles["west"]
        return digest(east, self.topic) == digest(west, f"east.{self.topic}")


def caught_up_or_stopped(progress: LaneProgress) -> bool:
    return caught_up(progress) or any(condition.stops for condition in progress.conditions)


def place(user: RoleUser) -> dict[str, Any]:
    client = user.client()
    servers = client.pop("bootstrap.servers").split(",")
    client["sasl.password"] = "${env:ROLE_PASSWORD}"
    return {"name": user.handle.name, "bootstrap_servers": servers, "client": client}


@pytest.fixture
def users(secure: Sandbox, unique: str) -> dict[str, RoleUser]:
    return {name: RoleUser(secure[name], f"{unique}m", mirror_rules(unique, name)).made() for name in ("east", "west")}


@pytest.fixture
def mirror(
    secure: Sandbox, users: dict[str, RoleUser], create_topic: Callable[..., str], unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Mirror:  # fmt: skip
    monkeypatch.setitem(os.environ, "ROLE_PASSWORD", PASSWORD)
    create_topic(secure["east"], unique, 2, retention_ms="-1")
    create_topic(secure["west"], f"east.{unique}", 2, retention_ms="-1")
    known = AdminClient(secure["west"].super_client()).list_topics(timeout=20).topics
    for topic in {"__mirror_status", "__mirror_offsets"} - known.keys():
        create_topic(secure["west"], topic, 1)
    return Mirror(secure, users, unique, "__mirror_status")


def taken_away(users: Mapping[str, RoleUser]) -> list[tuple[str, AclBinding]]:
    every = [(name, rule) for name, user in users.items() for rule in user.rules]
    chosen = {(name, rule.resource, rule.operation): (name, rule) for name, rule in every}
    return every if WHOLE else [chosen[kind] for kind in CHOSEN]


@pytest.mark.long
def test_without_a_rule_the_mirror_says_so_and_nothing_is_lost(
    secure: Sandbox, mirror: Mirror, users: dict[str, RoleUser], capfd: pytest.CaptureFixture[str]
) -> None:
    write_awkward(secure["east"], mirror.topic, 2, 60)
    assert (mirror.copied(), mirror.verified(), mirror.is_whole()) == ("", "equal", True), "its rules are enough"
    lines = []
    for name, rule in taken_away(users):
        write_awkward(secure["east"], mirror.topic, 2, 20)
        with users[name].without(rule):
            words, verdict = mirror.copied(), mirror.verified()
        lines.append(f"{name}, {title(rule)}: copy {words[:90]!r}; verify {verdict[:90]!r}")
        if words:
            assert any(word in words.lower() for word in DENIED), lines[-1]
        else:
            assert mirror.is_whole(), lines[-1]
        assert verdict == "equal" or any(word in verdict.lower() for word in DENIED), lines[-1]
        assert (mirror.copied(), mirror.is_whole()) == ("", True), f"with the rule back: {lines[-1]}"
        assert mirror.verified() == "equal"
    with capfd.disabled():
        sys.stdout.write("".join(f"\n  {line}" for line in lines) if WHOLE else "")

"""The last drill of a flow, in status as text and JSON and on the live page: when, how it ended, against what is
declared."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.live import LiveState
from reconciler.model.schemas import schema
from reconciler.model.state.last_drill import LastDrill
from reconciler.render.drill import Drills
from reconciler.render.live.flows import flows_page
from reconciler.render.live.view import LivePage, LiveReading, LiveView, PageKind
from reconciler.render.reports.status import StatusInputs, status_json, status_text
from tests.support.builders import flow, topology

DAY_MS, NOW_MS = 86_400_000, 1_790_000_000_000
GOALS = Objectives(rto_ms=300_000, rpo_ms=10_000, drill_every_ms=30 * DAY_MS)
PLAIN = topology(flow("east", "west", "orders"), flow("west", "east", "orders"))
DECLARED = replace(PLAIN, flows={**PLAIN.flows, "east-to-west": replace(PLAIN.flows["east-to-west"], objectives=GOALS)})
MET = LastDrill(DECLARED.environment, "east-to-west", NOW_MS - DAY_MS, NOW_MS - DAY_MS, "met", 41.04, 0.8, "d", "ann")
OVERDUE = replace(MET, verdict="missed", met_ms=NOW_MS - 31 * DAY_MS, recovery_s=None)


@pytest.mark.parametrize(
    ("drills", "state", "overdue", "words"),
    [
        ({"east-to-west": MET}, "met", False, "recovery time 41.0 s (at most 300 s), recovery point 0.8 s (at most 10"),
        ({"east-to-west": OVERDUE}, "missed", True, "recovery time not measured (at most 300 s)"),
        ({"east-to-west": replace(OVERDUE, met_ms=0)}, "missed", True, "OVERDUE: met never, to be met every 720.0 h"),
        ({}, "never", True, "none yet, although objectives are declared: reconciler drill ENV east-to-west"),
        (Unknown("last drills", "west does not answer", "Wait"), "unknown", None, "unknown: west does not answer"),
    ],
)
def test_status_and_the_page_of_a_flow_say_how_its_last_drill_ended(
    drills: Drills, state: str, overdue: bool | None, words: str
) -> None:
    live, inputs = LiveState({}, {}), StatusInputs(None, drills=drills)
    line = next(
        each for each in status_text(DECLARED, live, NOW_MS, inputs).splitlines() if each.startswith("drill of ")
    )
    assert words in line
    told = json.loads(status_json(DECLARED, live, NOW_MS, inputs))
    jsonschema.validate(told, schema("status-report"))
    assert told["drills"].keys() == {"east-to-west"}, "the other flow declares none"
    seen = told["drills"]["east-to-west"]
    assert (seen["state"], seen.get("overdue"), seen["rto_s"]) == (state, overdue, 300.0)
    view = LiveView(DECLARED, lock=LiveReading(inputs, NOW_MS))
    page = flows_page(view, LivePage(PageKind.FLOWS, flow="east-to-west"), NOW_MS)
    notes = next(region.html for region in page if region.name == "notes")
    assert "last drill: " in notes
    assert words.split("(")[0] in notes


def test_without_objectives_nothing_is_said_of_drills() -> None:
    inputs = StatusInputs(None, drills={"east-to-west": MET})
    assert "drill" not in status_text(PLAIN, LiveState({}, {}), NOW_MS, inputs)
    assert "drills" not in json.loads(status_json(PLAIN, LiveState({}, {}), NOW_MS, inputs))

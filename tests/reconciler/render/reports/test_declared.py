"""With --live, validate says what blocks a plan on the live clusters; what is unknown is never fine."""

from __future__ import annotations

import json

from reconciler.errors import Unknown
from reconciler.model.changes import About, Refused, Subject, Why
from reconciler.model.plan import Basis, Plan
from reconciler.render.reports.declared import valid_json, valid_text
from tests.support.builders import topology

FULL = Refused.of(
    Subject(About.FLOW, name="east-to-west"), Why.REMOTE_TOPIC_NOT_EMPTY, "flow east-to-west would copy again", "Choose"
)
BASIS = Basis("prod", "digest")


def test_what_clusters_refuse_is_listed_with_its_code() -> None:
    text = valid_text("environments/prod", topology(), Plan(BASIS, refused=(FULL,)))
    assert "blocked: flow east-to-west would copy again  [remote-topic-not-empty]" in text
    document = json.loads(valid_json("environments/prod", topology(), Plan(BASIS, refused=(FULL,))))
    assert (document["exit_code"], [each["code"] for each in document["problems"]]) == (3, ["remote-topic-not-empty"])


def test_an_unknown_cluster_is_no_clean_bill() -> None:
    silent = Plan(BASIS, unknown=(Unknown("topic heartbeats on west", "its records: no answer", "Check it"),))
    assert "unknown: topic heartbeats on west: its records: no answer" in valid_text("e", topology(), silent)
    assert "topic heartbeats on west: its records" in valid_json("e", topology(), silent)
    assert json.loads(valid_json("e", topology(), silent))["exit_code"] == 1


def test_clusters_that_refuse_nothing_are_said_to_have_been_asked() -> None:
    assert "nothing blocks a plan" in valid_text("e", topology(), Plan(BASIS))
    assert "live" not in valid_text("e", topology())

"""The copy of the audit record in its topic, while the topic's cluster does not answer."""

from __future__ import annotations

import pytest

from reconciler.backends.state import audit
from reconciler.backends.state.audit import AuditTopicLog
from reconciler.errors import ClusterError
from tests.support.builders import cluster

CHANGE, END = {"kind": "change"}, {"kind": "end"}


class Silent(AuditTopicLog):
    """Its cluster answers when ``answers`` is set; ``tries`` counts how often it was waited for."""

    tries = 0
    answers = False

    def _flush(self) -> None:
        self.tries += 1
        if not self.answers:
            raise ClusterError("east", "unreachable", "cluster east does not answer")
        self.waiting.clear()
        self.trouble = ""


def test_a_silent_cluster_is_waited_for_once_not_with_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PAUSE_SECONDS", 0.0)
    log = Silent(cluster("east"), "audit", "test")
    for _ in range(500):
        log.write(CHANGE)
    assert log.tries == 1
    log.write(END)
    assert log.tries == 2
    assert log.left().startswith("501 audit lines are in the file alone, not in east/audit")


def test_what_begins_or_ends_a_run_is_tried_again_at_once() -> None:
    log = Silent(cluster("east"), "audit", "test")
    log.write(CHANGE)
    log.answers = True
    log.write(CHANGE)
    assert log.waiting
    log.write(END)
    assert log.left() == ""

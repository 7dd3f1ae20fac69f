"""Every broker is asked until it shows a change; a broker that is too late is reported by its number."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.backends.clusters.acls_and_quotas import AccessControl, AclRequests, acl_of
from reconciler.backends.clusters.in_batches import until_shown
from reconciler.kafka.protocol.acls import Acl
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl, Grant
from reconciler.model.environment.topology import Principal
from reconciler.model.principals import AclBinding
from tests.support.access.acls import rule
from tests.support.builders import cluster
from tests.support.fakes.subjects import BECAUSE


def test_each_broker_is_asked_again_until_nothing_differs_there() -> None:
    answers: dict[int, list[list[str]]] = {1: [["a", "b"], ["b"], []], 2: [[]], 3: [["a"], []]}
    assert until_shown(answers, lambda broker: answers[broker].pop(0), 10) == {}
    assert answers == {1: [], 2: [], 3: []}


def test_what_one_broker_does_not_show_in_time_is_reported_and_the_next_is_not_asked() -> None:
    asked: list[int] = []

    def differing(broker: int) -> list[str]:
        asked.append(broker)
        return ["a"] if broker == 2 else []

    assert until_shown((1, 2, 3), differing, 0.0) == {"a": 2}
    assert set(asked) == {1, 2}


@pytest.mark.parametrize("kind", [CreateAcl, DeleteAcl])
@pytest.mark.parametrize("answers", [0, 1, 3])
def test_answers_that_cannot_be_told_apart_leave_the_cluster_s_rules_to_decide(
    kind: type[CreateAcl] | type[DeleteAcl], answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too few, without a word of which: what is there then was made, and the rest is not known to be."""
    there, missing = rule("allow User:a read topic orders"), rule("allow User:b read topic orders")
    sent: list[dict[AclBinding, object]] = []

    async def call(*_: object) -> object:
        result = SimpleNamespace(error_code=0, error_message=None, matching_acls=[])
        return SimpleNamespace(results=[result] * answers, filter_results=[result] * answers)

    def described(_: object, broker: int | None = None) -> list[Acl]:
        return [acl_of(there)]

    def ask(self: AclRequests, asked: Any, session: Any, broker: int | None = None) -> Any:
        async def run() -> Any:
            return await session(SimpleNamespace(call=call, version=lambda _: 3))

        self._runner = asyncio.Runner()
        return self.run(asked, run)

    for name, instead in (("ask", ask), ("described", described), ("__enter__", lambda it: it)):
        monkeypatch.setattr(AclRequests, name, instead)
    monkeypatch.setattr(AclRequests, "__exit__", lambda it, *_: it._runner.close() if hasattr(it, "_runner") else None)
    nothing = SimpleNamespace(read=lambda *_: {})
    control = AccessControl(cluster("east"), Principal.APPLY, "prod")
    control.record = SimpleNamespace(write=sent.append, prefix="", among=lambda _: {}, log=nothing)  # type: ignore[assignment]
    changes: list[AclChange] = [kind("east", acl, Grant("t", "m"), BECAUSE) for acl in (there, missing)]
    first, second = control.failures(changes)
    assert f"2 access rules were sent, and {answers} answers came" in second
    assert (first == "") is (kind is CreateAcl), "a deletion that may have been done is not called done"
    assert not any(None in written.values() for written in sent), "no entry is struck"

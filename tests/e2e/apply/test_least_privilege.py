"""The roles that the pages list, each as a user that may do exactly that: enough; and without one rule, told so.

``make test-least-privilege`` takes away every rule in turn. Where a command does not need a rule it goes as it did;
else it says what it may not, plans nothing that it could not see, and what it reports as done is done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.model.principals import AclBinding, Operation, ResourceType
from tests.support.access.role_users import PASSWORD, WHOLE, RoleUser, names_right, rules_of, title
from tests.support.commands import Ended, Write

Cli = Callable[..., Ended]
TOPIC, CLUSTER, TRANSACTION = ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
CHOSEN = {
    "plan": ((TOPIC, "*", Operation.DESCRIBE), (TOPIC, "*", Operation.DESCRIBE_CONFIGS)),
    "apply": (
        (TOPIC, "*", Operation.ALTER_CONFIGS),
        (CLUSTER, "kafka-cluster", Operation.ALTER),
        (TOPIC, "__reconciler", Operation.WRITE),
    ),
}


@pytest.fixture
def users(secure: Sandbox, unique: str) -> dict[str, RoleUser]:
    east = secure["east"]
    roles = "clusters: {east: {bootstrap_servers: [e:1]}}\naccess:\n"
    roles += "".join(
        f"  - {{role: reconciler-{who}, principal: 'User:{unique}{who}', clusters: [east]}}\n" for who in CHOSEN
    )
    return {who: RoleUser(east, f"{unique}{who}", rules_of(roles, f"{unique}{who}", "east")).made() for who in CHOSEN}


@pytest.fixture
def env(
    write: Write, secure: Sandbox, users: dict[str, RoleUser], unique: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Path]:
    """``env(3)``: the edit of that number, which makes and changes something of every kind."""
    east = secure["east"]
    monkeypatch.setenv("ROLE_PASSWORD", PASSWORD)
    monkeypatch.setenv("ROLE_CA", str(east.ca))

    def make(edit: int) -> Path:
        names = [f"{unique}-{number}" for number in range(1, edit + 1)]
        principals = {
            who: {"sasl.username": user.name, "sasl.password": "${env:ROLE_PASSWORD}"} for who, user in users.items()
        }
        document = {
            "clusters": {
                "east": {
                    "bootstrap_servers": east.bootstrap_servers.split(","),
                    "cluster_id": east.cluster_id,
                    "client": {
                        "security.protocol": "SASL_SSL",
                        "sasl.mechanism": "SCRAM-SHA-512",
                        "ssl.ca.location": "${env:ROLE_CA}",
                    },
                    "principals": principals,
                }
            },
            "topics": {
                unique: {"clusters": ["east"], "partitions": edit, "configs": {"retention.ms": str(edit * 1000)}},
                **{name: {"clusters": ["east"], "partitions": 1} for name in names},
            },
            "access": [
                {"role": "consumer", "principal": f"User:{unique}app", "clusters": ["east"], "topics": names,
                 "groups": [unique]},
            ],
            "quotas": [{"clusters": ["east"], "user": f"{unique}app", "producer_byte_rate": f"{edit}MiB"}],
        }  # fmt: skip
        return write(json.dumps(document), unique)

    return make


def tell(lines: list[str]) -> None:
    """The figures of the whole matrix."""
    if WHOLE:
        sys.stdout.write("".join(f"\n  {line}" for line in lines) + "\n")


def ids(ended: Ended) -> set[str]:
    return {change["id"] for change in json.loads(ended.out)["changes"]}


def taken_away(user: RoleUser, who: str) -> list[AclBinding]:
    return [
        rule for rule in user.rules if WHOLE or (rule.resource, rule.name, rule.operation) in CHOSEN[who]
    ]  # fmt: skip


def planned(cli: Cli, folder: Path) -> Ended:
    return cli("plan", folder, "--format", "json")


def applied(cli: Cli, folder: Path) -> tuple[Ended, dict[str, str]]:
    """What ended how; nothing where nothing was begun."""
    ended = cli("apply", folder, "--yes", "--format", "json")
    document: dict[str, Any] = json.loads(ended.out) if ended.out.startswith("{") else {}
    return ended, {outcome["id"]: outcome["result"] for outcome in document.get("outcomes", ())}


@pytest.mark.kafka("secure")
def test_without_a_rule_plan_says_what_it_may_not_and_invents_nothing(
    cli: Cli, env: Callable[[int], Path], users: dict[str, RoleUser], capfd: pytest.CaptureFixture[str]
) -> None:
    ended, results = applied(cli, env(1))
    assert (ended.code, set(results.values())) == (0, {"done"}), ended.words
    everything = planned(cli, env(2))
    assert everything.code == 2, everything.words
    told: list[str] = []
    for rule in taken_away(users["plan"], "plan"):
        with users["plan"].without(rule):
            less = planned(cli, env(2))
        told.append(f"{title(rule)}: exit {less.code}")
        if less.out.startswith("{"):
            assert ids(less) <= ids(everything), f"{title(rule)}: {less.words}"
        if not less.out.startswith("{") or ids(less) != ids(everything):
            assert names_right(less.words, rule), f"{title(rule)}: {less.words}"
            assert less.code != 0, "a plan that could not look is never empty and well"
    with capfd.disabled():
        tell(told)


@pytest.mark.kafka("secure")
@pytest.mark.long
def test_without_a_rule_apply_does_what_it_reports_and_no_more(
    cli: Cli, env: Callable[[int], Path], users: dict[str, RoleUser], capfd: pytest.CaptureFixture[str]
) -> None:
    ended, results = applied(cli, env(1))
    assert (ended.code, set(results.values())) == (0, {"done"}), ended.words
    told: list[str] = []
    for edit, rule in enumerate(taken_away(users["apply"], "apply"), 2):
        with users["apply"].without(rule):
            ended, results = applied(cli, env(edit))
        left = ids(planned(cli, env(edit)))
        done = {change for change, result in results.items() if result == "done"}
        told.append(f"{title(rule)}: exit {ended.code}, {len(done)} of {len(done | left)} changes done")
        assert not done & left, f"{title(rule)}: {ended.words}"
        if ended.code != 0:
            assert names_right(ended.words, rule), f"{title(rule)}: {ended.words}"
        else:
            assert not left, f"{title(rule)}: {ended.words}"
        ended, results = applied(cli, env(edit))
        assert (ended.code, {change for change, result in results.items() if result == "done"}) == (0, left), (
            ended.words
        )
    assert ids(planned(cli, env(edit))) == set()
    with capfd.disabled():
        tell(told)

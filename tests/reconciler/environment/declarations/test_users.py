"""What may not be asked of SCRAM users: to lock ourselves out, and what cannot be meant."""

from __future__ import annotations

import pytest

from reconciler.engine.plan.select import known_part
from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.principals import UserRecord
from tests.support.access.users import APP, SHA_256, SHA_512, env, users
from tests.support.builders import codes, world

SCRAM = """
clusters:
  east:
    bootstrap_servers: ["east:9092"]
    client:
      {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: admin, sasl.password: "${env:ADMIN}"}
    principals: {mirror: {sasl.username: mirror, sasl.password: "${env:MIRROR}"}}
  west: {bootstrap_servers: ["west:9092"]}
topics: {orders: {clusters: [east], partitions: 1}}
flows: {east-to-west: {source: east, target: west, topics: [orders], replication_factor: 1}}
"""


@pytest.mark.parametrize("name", ["admin", "mirror"])
def test_the_users_we_log_in_with_are_neither_deleted_nor_given_another_password(name: str) -> None:
    seen = world()
    seen.clusters["east"].users[name] = {SHA_512: 4096}
    planned = seen.plan(users(f"name: {name}, absent: true", clusters=SCRAM))
    assert codes(planned) == {"locks-itself-out"}
    assert f"it logs in to east as {name} by SCRAM-SHA-512" in planned.refused[0].reason.text
    assert not any("delete-user" in one.id for one in known_part(planned).plan.changes)
    other = seen.plan(users(f"name: {name}, version: 1, take_over: true, password: '${{env:X}}'", clusters=SCRAM))
    assert codes(other) == {"own-password"}
    assert f"sasl.password ${{env:{name.upper()}}}, and the new one is ${{env:X}}" in other.refused[0].reason.text
    same = f"name: {name}, version: 1, take_over: true, password: '${{env:{name.upper()}}}'"
    planned = seen.plan(users(same, clusters=SCRAM))
    assert not planned.refused
    assert any("restart them" in note for note in planned.notes) is (name == "mirror")


def test_another_mechanism_of_our_own_user_may_go_and_come() -> None:
    seen = world()
    seen.clusters["east"].users["admin"] = {SHA_512: 4096, SHA_256: 4096}
    seen.clusters["east"].recorded["admin"] = UserRecord(1, (SHA_256, SHA_512))
    planned = seen.plan(users("name: admin, version: 1, password: '${env:X}'", clusters=SCRAM))
    assert not planned.refused
    assert [one.id for one in planned.changes if "user" in one.id] == ["delete-user:east: user admin"]


def test_a_login_behind_a_reference_is_said_not_to_be_checked() -> None:
    seen = world()
    hidden = SCRAM.replace("sasl.username: admin", "sasl.username: '${env:WHO}'")
    planned = seen.plan(users(f"{APP}, version: 1", clusters=hidden))
    assert any("its sasl.username is a reference" in note for note in planned.notes)


WRONG = {
    "name: a, password: '${env:A}'": "user-field",
    "name: a, version: 1": "user-field",
    "name: a, absent: true, version: 1": "user-field",
    "name: 'User:a', version: 1, password: '${env:A}'": "user-name",
    "name: a, version: 1, password: hunter2": "secret-in-git",
    "name: a, version: 1, password: 'x${env:A}'": "secret-in-git",
    "name: a, version: 1, password: 12345": "wrong-type",
    "name: a, version: 1, password: '${env:A}', iterations: 1000": "out-of-range",
    "name: a, version: 1, password: '${env:A}', iterations: 20000": "out-of-range",
    "name: a, version: -1, password: '${env:A}'": "out-of-range",
    "name: a, version: 1, password: '${env:A}', mechanisms: [PLAIN]": "unknown-value",
    "name: a, version: 1, passwort: '${env:A}'": "unknown-field",
}


@pytest.mark.parametrize("fields", WRONG)
def test_what_cannot_be_meant_is_reported_with_its_line_and_without_a_secret(fields: str) -> None:
    with pytest.raises(TopologyError) as caught:
        users(fields)
    codes = {problem.code for problem in caught.value.problems}
    assert WRONG[fields] in codes
    assert {problem.where.line for problem in caught.value.problems} == {2}
    assert "hunter2" not in str(caught.value)
    assert "12345" not in str(caught.value)


def test_one_user_is_declared_once_on_a_cluster() -> None:
    with pytest.raises(TopologyError) as caught:
        env(
            f"users:\n  - {{clusters: [east], {APP}, version: 1}}\n",
            "users:\n  - {clusters: [east, nowhere], name: orders-app, absent: true}\n",
        )
    assert {problem.code for problem in caught.value.problems} == {"duplicate-user", "unknown-cluster"}


def test_two_users_with_one_password_are_refused_once_one_of_them_sets_it() -> None:
    """As files of an earlier release have them for svc.a and svc-a."""

    def of(version: int, password: str, name: str = "svc-a", cluster: str = "west") -> str:
        one = "{clusters: [east], name: svc.a, version: 0, password: '${env:SVC}', take_over: true}"
        other = f"{{clusters: [{cluster}], name: {name}, version: {version}, password: '{password}'}}"
        return f"users:\n  - {one}\n  - {other}\n"

    with pytest.raises(TopologyError) as caught:
        env(of(1, "${env:SVC}"))
    [problem] = caught.value.problems
    assert (problem.code, problem.where.line) == ("shared-password", 3)
    assert "user svc-a has the password ${env:SVC}, as user svc.a at " in problem.what
    for fine in (of(1, "${env:OTHER}"), of(1, "${env:SVC}", name="svc.a")):
        env(fine)


def test_a_mirror_starts_after_its_user_is_made() -> None:
    seen = world()
    planned = seen.plan(users("name: mirror, version: 1, password: '${env:MIRROR}'", clusters=SCRAM))
    start = next(one for one in planned.changes if one.id == "start:west")
    assert "user:east: user mirror" in start.needs


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("users: [{name: a, clusters: [east], password: hunter2, slip: 1}]", "password holds a literal value"),
        ("users: [{clusters: [east], password: '${env:A}hunter2'}]", "password mixes a reference"),
        ("webhooks: [{url: 'https://hunter2', slip: 1}]", "url is not one reference"),
    ],
)
def test_a_literal_secret_is_named_beside_an_entrys_other_problems(entry: str, words: str) -> None:
    with pytest.raises(TopologyError) as raised:
        load({"a.yaml": f"{SCRAM}{entry}\n"}, "env")
    codes_of_all = [problem.code for problem in raised.value.problems]
    assert "secret-in-git" in codes_of_all
    assert len(codes_of_all) == 2
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)

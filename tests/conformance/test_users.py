"""SCRAM users of a cluster: the fake and a real broker, and what a real login says."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.protocol.admin import AlterUserScramCredentialsRequest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters import users as edge
from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.errors import Unknown
from reconciler.model.changes import AlterUser, CredentialChange, DeleteUser, UserChange
from reconciler.model.environment.topology import Principal
from reconciler.model.plan import Outcome, Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.principals import Credentials, Mechanism, Unsupported, UserRecord
from tests.support.clusters import may_log_in, real_cluster, scram
from tests.support.fakes.subjects import BECAUSE, results

SHA_256, SHA_512 = Mechanism.SHA_256, Mechanism.SHA_512
FIRST, SECOND = "first \u00fc secret", "second secret"

pytestmark = scram


@pytest.fixture
def password(tmp_path: Path) -> str:
    """A reference to the first password."""
    path = tmp_path / "password"
    path.write_text(f"{FIRST}\n", encoding="utf-8")
    return f"${{file:{path}}}"


def alter(user: str, reference: str, version: int = 1, **iterations: int) -> AlterUser:
    """``iterations``: SHA_512=4096."""
    credentials = tuple(CredentialChange(Mechanism[name], None, count) for name, count in iterations.items())
    return AlterUser(
        "east", user, credentials or (CredentialChange(SHA_512, None, 4096),), None, version, reference, BECAUSE
    )


def perform(admin: ClusterAdmin, *changes: UserChange) -> Sequence[Outcome]:
    planned = [Planned(f"c{index}", one, "users", "low", "", "") for index, one in enumerate(changes)]
    return admin.perform(planned, lambda _: None)


@dataclass(frozen=True)
class Shown:
    credentials: Mapping[str, Credentials]
    recorded: Mapping[str, UserRecord]


def shown(admin: ClusterAdmin) -> Shown:
    found = admin.read_users()
    assert not isinstance(found.credentials, Unknown | Unsupported)
    assert not isinstance(found.recorded, Unknown)
    return Shown(found.credentials, found.recorded)


def test_users_are_made_shown_changed_and_deleted_and_their_versions_recorded(
    admin: ClusterAdmin, unique: str, password: str
) -> None:
    before = dict(shown(admin).credentials)
    strange = f"CN={unique}, O=\u00dcnder"
    made = perform(admin, alter(unique, password, 3, SHA_256=4096, SHA_512=8192), alter(strange, password))
    assert results(made) == ["done", "done"]
    found = shown(admin)
    assert found.credentials == before | {unique: {SHA_256: 4096, SHA_512: 8192}, strange: {SHA_512: 4096}}
    assert found.recorded == {unique: UserRecord(3, (SHA_256, SHA_512)), strange: UserRecord(1, (SHA_512,))}
    assert results(perform(admin, alter(unique, password, 4, SHA_512=16384))) == ["done"]
    assert shown(admin).recorded[unique] == UserRecord(4, (SHA_256, SHA_512))
    assert results(perform(admin, DeleteUser("east", unique, (SHA_256,), (SHA_512,), BECAUSE))) == ["done"]
    found = shown(admin)
    assert (found.credentials[unique], found.recorded[unique]) == ({SHA_512: 16384}, UserRecord(4, (SHA_512,)))
    gone = [DeleteUser("east", user, (SHA_512,), (), BECAUSE) for user in (unique, strange)]
    assert results(perform(admin, *gone)) == ["done", "done"]
    assert shown(admin) == Shown(before, {})


def test_one_refused_change_does_not_keep_the_others_from_being_done(
    admin: ClusterAdmin, unique: str, password: str
) -> None:
    good, bad = unique, f"{unique}x"
    outcomes = perform(admin, alter(bad, password, SHA_512=100), alter(good, password))
    assert results(outcomes) == ["failed", "done"]
    assert "iterations" in outcomes[0].error
    found = shown(admin)
    assert bad not in found.credentials
    assert found.recorded.get(good) == UserRecord(1, (SHA_512,))
    perform(admin, DeleteUser("east", good, (SHA_512,), (), BECAUSE))


def test_the_salted_password_is_that_of_the_standard() -> None:
    """The example of RFC 7677, section 3: the client's proof follows from the salted password."""
    salted = edge.salted("pencil", SHA_256, 4096, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), message.encode(), "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


@pytest.mark.kafka
def test_a_user_logs_in_with_its_password_and_with_no_older_one(
    secure: Sandbox, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    east, secret = secure.clusters["east"], tmp_path / "secret"
    secret.write_text(FIRST, encoding="utf-8")
    caplog.set_level("DEBUG")
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY, unique) as admin:
        assert not may_log_in(east, unique, FIRST)
        assert results(perform(admin, alter(unique, f"${{file:{secret}}}"))) == ["done"]
        assert may_log_in(east, unique, FIRST)
        assert not may_log_in(east, unique, SECOND)
        secret.write_text(SECOND, encoding="utf-8")
        assert results(perform(admin, alter(unique, f"${{file:{secret}}}", 2))) == ["done"]
        assert may_log_in(east, unique, SECOND)
        assert not may_log_in(east, unique, FIRST)
        perform(admin, DeleteUser("east", unique, (SHA_512,), (), BECAUSE))
        assert not may_log_in(east, unique, SECOND)
    assert FIRST not in caplog.text
    assert SECOND not in caplog.text


@pytest.mark.kafka
def test_a_password_is_on_the_wire_salted_only_and_each_time_with_another_salt(
    plain: Sandbox, unique: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    request = AlterUserScramCredentialsRequest
    encode = request.encode

    def spied(self: object, *args: object, **kwargs: object) -> object:
        found = encode(self, *args, **kwargs)
        sent.append(bytes(found) if isinstance(found, bytes | bytearray | memoryview) else repr(found).encode())
        return found

    monkeypatch.setattr(request, "encode", spied)
    with KafkaCluster(real_cluster(plain.clusters["east"]), Principal.APPLY, unique) as admin:
        for version in (1, 2):
            assert results(perform(admin, alter(unique, password, version))) == ["done"]
        perform(admin, DeleteUser("east", unique, (SHA_512,), (), BECAUSE))
    assert len(sent) == 3
    assert all(unique.encode() in one and FIRST.encode() not in one for one in sent)
    assert sent[0] != sent[1]


@pytest.mark.kafka
def test_without_the_right_reading_is_unknown_and_the_error_names_the_command(
    secure: Sandbox, unique: str, password: str
) -> None:
    east = secure.clusters["east"]
    with KafkaCluster(real_cluster(east, "user"), Principal.PLAN, unique) as cluster:
        found = cluster.read_users().credentials
        assert isinstance(found, Unknown)
        assert "may not read the SCRAM users" in found.error
        assert "--operation Describe --cluster" in found.todo
    with KafkaCluster(real_cluster(east, "plan"), Principal.PLAN, unique) as cluster:
        assert "user" in shown(cluster).credentials
        [outcome] = perform(cluster, alter(unique, password))
        assert results([outcome]) == ["failed"]
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY, unique) as cluster:
        assert unique not in shown(cluster).credentials


@pytest.mark.kafka
def test_a_run_never_takes_the_user_it_logs_in_with(secure: Sandbox, unique: str, password: str) -> None:
    east = secure.clusters["east"]
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY, unique) as admin:
        own = AlterUser("east", "apply", (CredentialChange(SHA_512, 4096, 4096),), None, 1, password, BECAUSE)
        for change in (own, DeleteUser("east", "apply", (SHA_512,), (), BECAUSE)):
            [outcome] = perform(admin, change)
            assert results([outcome]) == ["failed"]
            assert "this run itself logs in as it" in outcome.error
        assert shown(admin).credentials["apply"] == {SHA_512: 4096}


@pytest.mark.kafka
def test_a_kill_between_the_password_and_its_record_claims_no_version(
    plain: Sandbox, unique: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaCluster(real_cluster(plain.clusters["east"]), Principal.APPLY, unique) as admin:
        perform(admin, alter(unique, password, 1))
        with monkeypatch.context() as patched:
            patched.setattr(edge, "not_shown", _killed)
            with pytest.raises(KeyboardInterrupt):
                perform(admin, alter(unique, password, 2, SHA_512=8192))
        found = shown(admin)
        assert found.credentials[unique] == {SHA_512: 8192}
        assert found.recorded[unique] == UserRecord(1, (SHA_512,), 2)
        assert results(perform(admin, alter(unique, password, 2))) == ["done"]
        assert shown(admin).recorded[unique] == UserRecord(2, (SHA_512,))
        perform(admin, DeleteUser("east", unique, (SHA_512,), (), BECAUSE))


def _killed(*_: object) -> dict[str, int]:
    raise KeyboardInterrupt


@pytest.mark.kafka
def test_a_password_that_cannot_be_had_fails_only_its_user(plain: Sandbox, unique: str, password: str) -> None:
    with KafkaCluster(real_cluster(plain.clusters["east"]), Principal.APPLY, unique) as admin:
        outcomes = perform(admin, alter(f"{unique}x", "${env:NOT_SET_AT_ALL}"), alter(unique, password))
        assert results(outcomes) == ["failed", "done"]
        assert "${env:NOT_SET_AT_ALL}: the environment variable is not set" in outcomes[0].error
        perform(admin, DeleteUser("east", unique, (SHA_512,), (), BECAUSE))

"""Reads and alters the SCRAM users of one cluster (KIP-554), and sets their passwords.

Passwords are salted here: a request carries a random salt and the salted password (RFC 5802), never the password.
The ownership record says ``setting`` before a password is sent and its version only after it is set.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from reconciler.backends.clusters.in_batches import KindControl, not_shown, unless_refused
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.errors import SECURITY_DISABLED, Asked
from reconciler.backends.connections.requests import Requests
from reconciler.backends.secrets import secret
from reconciler.backends.state.ownership import USERS, SubjectRecord
from reconciler.errors import ReconcilerError, SecretError, Unknown
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.acls import Unsupported
from reconciler.model.changes import AlterUser, DeleteUser, UserChange
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveUsers
from reconciler.model.users import Mechanism, UserRecord, user_words

DESCRIBE = Asked("read the SCRAM users", "Describe", "--cluster")
ALTER = Asked("change SCRAM users", "Alter", "--cluster")
SALT_BYTES = 32
UNSUPPORTED_VERSION = 35
LEADER_AND_ISR = 4
"""A request that controllers sent to brokers: only brokers with ZooKeeper offer it (KIP-631)."""
MECHANISMS = {1: Mechanism.SHA_256, 2: Mechanism.SHA_512}
_CODES = {mechanism: code for code, mechanism in MECHANISMS.items()}
_HASHES = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}
Shown = Mapping[str, Mapping[Mechanism, int]]


def salted(password: str, mechanism: Mechanism, iterations: int, salt: bytes) -> bytes:
    """SaltedPassword of RFC 5802: Hi() is PBKDF2 with HMAC. Kafka takes the password as it is, without SASLprep."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class Part:
    """One credential of a change. ``iterations`` None: it is deleted."""

    user: str
    mechanism: Mechanism
    iterations: int | None


def rounds(changes: Sequence[UserChange]) -> Iterator[list[Part]]:
    """Each user once in each round."""
    parts = [_parts(change) for change in changes]
    for number in range(max(map(len, parts), default=0)):
        yield [mine[number] for mine in parts if number < len(mine)]


def _parts(change: UserChange) -> list[Part]:
    if isinstance(change, DeleteUser):
        return [Part(change.user, mechanism, None) for mechanism in change.mechanisms]
    return [Part(change.user, credential.mechanism, credential.after) for credential in change.credentials]


def _upsertion(part: Part, iterations: int, password: str) -> Any:
    salt = secrets.token_bytes(SALT_BYTES)
    return protocol.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=part.user,
        mechanism=_CODES[part.mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted(password, part.mechanism, iterations, salt),
    )


class UserRequests(Requests):
    """Raises ClusterError."""

    def knows_users(self) -> bool:
        """Whether the brokers have the request at all (KRaft: since 3.5)."""
        return protocol.DescribeUserScramCredentialsRequest.API_KEY in self.versions()

    def described(self, broker: int | None = None) -> dict[str, dict[Mechanism, int]] | Unsupported:
        """All of them, as ``broker`` knows them now. A mechanism this version has no word for is left out.

        ``users`` is empty and not null: brokers do not answer a null from a principal without the right.
        """
        answer = self.send(DESCRIBE, protocol.DescribeUserScramCredentialsRequest, broker, users=[])
        if answer.error_code in (SECURITY_DISABLED, UNSUPPORTED_VERSION):
            return Unsupported(answer.error_message or f"the brokers refuse the request (error {answer.error_code})")
        self.check(answer.error_code, DESCRIBE, answer.error_message)
        # With ZooKeeper names come as ZooKeeper stores them, percent-encoded.
        name = unquote if LEADER_AND_ISR in self.versions() else str
        return {
            name(item.user): {
                MECHANISMS[info.mechanism]: info.iterations
                for info in item.credential_infos
                if info.mechanism in MECHANISMS
            }
            for item in answer.results
            if not item.error_code
        }

    def altered(self, parts: Sequence[Part], passwords: Mapping[str, str]) -> dict[str, str]:
        """User -> the broker's reason for a refusal. Each user once: brokers refuse one that is listed twice."""
        kind = protocol.AlterUserScramCredentialsRequest
        answer = self.send(
            ALTER,
            kind,
            deletions=[
                kind.ScramCredentialDeletion(name=part.user, mechanism=_CODES[part.mechanism])
                for part in parts
                if part.iterations is None
            ],
            upsertions=[
                _upsertion(part, part.iterations, passwords[part.user]) for part in parts if part.iterations is not None
            ],
        )
        return {
            item.user: str(self.refused(item.error_code, ALTER, item.error_message))
            for item in answer.results
            if item.error_code
        }


class UserControl(KindControl[UserChange]):
    """SCRAM users."""

    classes = (AlterUser, DeleteUser)
    most = 500

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        super().__init__(cluster, principal)
        self.record = SubjectRecord(USERS, cluster, principal, environment)

    def read(self) -> LiveUsers:
        """A refusal is Unknown with the rule to add. Raises ClusterError where the cluster does not answer at all."""
        by_name = unless_refused(f"users of {self.cluster.name}", self._described, "unreachable", "authentication")
        if isinstance(by_name, Unknown | Unsupported):
            return LiveUsers(by_name)
        return LiveUsers(by_name, unless_refused(f"ownership record of {self.cluster.name}", self.record.read))

    def _described(self) -> dict[str, dict[Mechanism, int]] | Unsupported:
        with UserRequests(self.cluster, self.principal) as requests:
            if not requests.knows_users():
                return Unsupported("the brokers do not know SCRAM users (Kafka 3.5 and newer do)")
            return requests.described()

    def failures(self, changes: Sequence[UserChange]) -> list[str]:
        failed = self._failed(changes)
        return [failed.get(change.user, "") for change in changes]

    def _failed(self, changes: Sequence[UserChange]) -> dict[str, str]:
        """User -> why it is not done. What is not in it is done and recorded."""
        passwords, failed = self._passwords(changes)
        asked = [change for change in changes if change.user not in failed]
        if not asked:
            return failed
        sent = False
        try:
            known = self.record.read()
            begun = {
                change.user: _begun(change, known.get(change.user)) for change in asked if isinstance(change, AlterUser)
            }
            self.record.write(begun)
            with UserRequests(self.cluster, self.principal) as requests:
                sent = True
                refused, begun_for = self._sent(requests, asked, passwords)
                done = [change for change in asked if change.user not in refused]
                # Of a password alone nothing can be seen.
                late = not_shown(requests, {change.user: change for change in done}, _shows)
            entries = {change.user: _done(change, known.get(change.user)) for change in done}
            self.record.write(entries | {user: known.get(user) for user in refused if user not in begun_for})
        except ReconcilerError as error:
            unsure = (
                "\nWhether it was done is not known: the next plan shows it and sets the password again."
                if sent
                else ""
            )
            return failed | {change.user: f"{self._named(change.user)}: {error}{unsure}" for change in asked}
        return failed | refused | {user: f"{self._named(user)}: {words}" for user, words in late.items()}

    def _sent(
        self, requests: UserRequests, changes: Sequence[UserChange], passwords: Mapping[str, str]
    ) -> tuple[dict[str, str], set[str]]:
        """Refused users with the reason, and those of whom something was changed."""
        refused: dict[str, str] = {}
        begun: set[str] = set()
        for parts in rounds(changes):
            asked = [part for part in parts if part.user not in refused]
            answer = requests.altered(asked, passwords) if asked else {}
            refused |= {user: f"{self._named(user)}: {words}" for user, words in answer.items()}
            begun |= {part.user for part in asked} - answer.keys()
        return refused, begun

    def _passwords(self, changes: Iterable[UserChange]) -> tuple[dict[str, str], dict[str, str]]:
        """By user, and why some cannot be had or may not be changed by this very login."""
        passwords: dict[str, str] = {}
        failed: dict[str, str] = {}
        own = client_settings(self.cluster, self.principal)
        for change in changes:
            try:
                if isinstance(change, AlterUser):
                    passwords[change.user] = secret(change.password)
            except SecretError as error:
                failed[change.user] = f"{self._named(change.user)}: its password cannot be had: {error.what}"
                continue
            if own.get("sasl.username") == change.user and _harms(change, own, passwords.get(change.user)):
                failed[change.user] = (
                    f"{self._named(change.user)}: this run itself logs in as it\n"
                    "It could not connect any more\n"
                    "Let another user do it, or name the same password in the client settings."
                )
        return passwords, failed

    def _named(self, user: str) -> str:
        return f"{self.cluster.name}: {user_words(user)}"


def _begun(change: AlterUser, known: UserRecord | None) -> UserRecord:
    """Until the end is written, the record does not claim that the version is set."""
    before = known or UserRecord(None)
    ours = (*before.mechanisms, *(credential.mechanism for credential in change.credentials))
    return replace(before, mechanisms=tuple(sorted(set(ours))), setting=change.version)


def _done(change: UserChange, known: UserRecord | None) -> UserRecord | None:
    if isinstance(change, AlterUser):
        return replace(_begun(change, known), version=change.version, setting=None)
    if known is None or not change.left:
        return None
    return replace(
        known, mechanisms=tuple(mechanism for mechanism in known.mechanisms if mechanism not in change.mechanisms)
    )


def _harms(change: UserChange, own: Mapping[str, str], password: str | None) -> bool:
    mechanism = own.get("sasl.mechanism", own.get("sasl.mechanisms", ""))
    if isinstance(change, DeleteUser):
        return mechanism in change.mechanisms
    replaced = any(
        credential.mechanism == mechanism and credential.before is not None for credential in change.credentials
    )
    return replaced and own.get("sasl.password") != password


def _shows(change: UserChange, shown: Shown | Unsupported) -> bool:
    live_credentials = {} if isinstance(shown, Unsupported) else shown.get(change.user, {})
    if isinstance(change, DeleteUser):
        return not any(mechanism in live_credentials for mechanism in change.mechanisms)
    return all(live_credentials.get(credential.mechanism) == credential.after for credential in change.credentials)

"""SCRAM users of one cluster (KIP-554): read in one request, changed in batches, each with its own answer.

Passwords are salted here: a request carries a random salt and the salted password (RFC 5802), never the password.
The ownership record says ``setting`` before a password is sent and its version only after it is set.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

from reconciler.acls import Unsupported
from reconciler.changes import AlterUser, DeleteUser, UserChange
from reconciler.edges.kafka.asking import AskingWire
from reconciler.edges.kafka.errors import Asked
from reconciler.edges.kafka.identity import client_settings
from reconciler.edges.kafka.performing import perform_in_batches
from reconciler.edges.kafka.subject_records import USERS, SubjectRecord
from reconciler.edges.secrets import secret
from reconciler.errors import ClusterError, ReconcilerError, SecretError, Unknown
from reconciler.live import LiveUsers
from reconciler.plans import Outcome, Planned
from reconciler.topology import Cluster, Principal
from reconciler.users import Mechanism, UserRecord, user_words

DESCRIBE = Asked("read the SCRAM users", "Describe", "--cluster")
ALTER = Asked("change SCRAM users", "Alter", "--cluster")
BATCH = 500
AGREE_SECONDS = 30.0
SALT_BYTES = 32
SECURITY_DISABLED, UNSUPPORTED_VERSION = 54, 35
MECHANISMS = {1: Mechanism.SHA_256, 2: Mechanism.SHA_512}
_CODES = {mechanism: code for code, mechanism in MECHANISMS.items()}
_HASHES = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}
_API = "DescribeUserScramCredentials"
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
    return [Part(change.user, one.mechanism, one.after) for one in change.credentials]


def _upsertion(part: Part, iterations: int, password: str) -> Any:
    salt = secrets.token_bytes(SALT_BYTES)
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=part.user,
        mechanism=_CODES[part.mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted(password, part.mechanism, iterations, salt),
    )


class UserWire(AskingWire):
    """Raises ClusterError."""

    def __enter__(self) -> UserWire:
        super().__enter__()
        return self

    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(broker.node_id for broker in self._admin._manager.cluster.brokers()))

    def knows_users(self) -> bool:
        """Whether the brokers have the request at all (KRaft: since 3.5)."""
        return _API in self.apis()

    def described(self, broker: int | None = None) -> dict[str, dict[Mechanism, int]] | Unsupported:
        """All of them, as ``broker`` knows them now. A mechanism this version has no word for is left out.

        ``users`` is empty and not null: brokers answer a null of somebody without the right with silence.
        """
        answer = self._told("SCRAM users", DescribeUserScramCredentialsRequest(users=[]), broker)
        if answer.error_code in (SECURITY_DISABLED, UNSUPPORTED_VERSION):
            return Unsupported(answer.error_message or f"the brokers refuse the request (error {answer.error_code})")
        if answer.error_code:
            raise self._refused(answer.error_code, DESCRIBE, answer.error_message)
        return {
            one.user: {
                MECHANISMS[info.mechanism]: info.iterations
                for info in one.credential_infos
                if info.mechanism in MECHANISMS
            }
            for one in answer.results
            if not one.error_code
        }

    def altered(self, parts: Sequence[Part], passwords: Mapping[str, str]) -> dict[str, str]:
        """User -> what was refused, with the broker's words. Each user once: brokers refuse one that stands twice."""
        data = AlterUserScramCredentialsRequest
        request = data(
            deletions=[
                data.ScramCredentialDeletion(name=one.user, mechanism=_CODES[one.mechanism])
                for one in parts
                if one.iterations is None
            ],
            upsertions=[
                _upsertion(one, one.iterations, passwords[one.user]) for one in parts if one.iterations is not None
            ],
        )
        answer = self._told("a change of SCRAM users", request)
        return {
            one.user: str(self._refused(one.error_code, ALTER, one.error_message))
            for one in answer.results
            if one.error_code
        }


class UserControl:
    """The SCRAM users of one cluster as one principal. Opens a connection for each call and keeps none."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        self.cluster = cluster
        self.principal = principal
        self.record = SubjectRecord(USERS, cluster, principal, environment)

    def read(self) -> LiveUsers:
        """A refusal is Unknown with the rule to add. Raises ClusterError where the cluster does not answer at all."""
        try:
            with self._wire() as wire:
                if not wire.knows_users():
                    return LiveUsers(Unsupported("the brokers do not know SCRAM users (Kafka 3.5 and newer do)"))
                found = wire.described()
        except ClusterError as error:
            if error.kind in ("unreachable", "authentication"):
                raise
            return LiveUsers(Unknown(f"users of {self.cluster.name}", f"{error.what}. {error.why}", error.todo))
        return LiveUsers(found) if isinstance(found, Unsupported) else LiveUsers(found, self._recorded())

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
        """One outcome a change, in order; never raises for one. ``changes`` are all of users, each user once."""

        def failures(batch: Sequence[Planned]) -> list[str]:
            narrowed = [_narrowed(planned) for planned in batch]
            failed = self._failures(narrowed)
            return [failed.get(change.user, "") for change in narrowed]

        return perform_in_batches(changes, BATCH, failures, progress)

    def _failures(self, changes: Sequence[UserChange]) -> dict[str, str]:
        """User -> why it is not done. What is not in it is done and recorded."""
        passwords, failed = self._passwords(changes)
        asked = [one for one in changes if one.user not in failed]
        if not asked:
            return failed
        sent = False
        try:
            known = self.record.read()
            begun = {one.user: _begun(one, known.get(one.user)) for one in asked if isinstance(one, AlterUser)}
            self.record.write(begun)
            with self._wire() as wire:
                sent = True
                refused, begun_for = self._sent(wire, asked, passwords)
                done = [one for one in asked if one.user not in refused]
                late = _disagreeing(wire, done)
            entries = {one.user: _done(one, known.get(one.user)) for one in done}
            self.record.write(entries | {user: known.get(user) for user in refused if user not in begun_for})
        except ReconcilerError as error:
            unsure = (
                "\nWhether it was done is not known: the next plan tells, and sets a password again." if sent else ""
            )
            return failed | {one.user: f"{self._named(one.user)}: {error}{unsure}" for one in asked}
        return failed | refused | {user: f"{self._named(user)}: {words}" for user, words in late.items()}

    def _sent(
        self, wire: UserWire, changes: Sequence[UserChange], passwords: Mapping[str, str]
    ) -> tuple[dict[str, str], set[str]]:
        """Refused users with the reason, and those of whom something was changed."""
        refused: dict[str, str] = {}
        begun: set[str] = set()
        for parts in rounds(changes):
            asked = [one for one in parts if one.user not in refused]
            answer = wire.altered(asked, passwords) if asked else {}
            refused |= {user: f"{self._named(user)}: {words}" for user, words in answer.items()}
            begun |= {one.user for one in asked} - answer.keys()
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

    def _recorded(self) -> Mapping[str, UserRecord] | Unknown:
        try:
            return self.record.read()
        except ClusterError as error:
            subject = f"ownership record of {self.cluster.name}"
            return Unknown(subject, f"{error.what}. {error.why}", error.todo)

    def _wire(self) -> UserWire:
        return UserWire(self.cluster, self.principal)


def _begun(change: AlterUser, known: UserRecord | None) -> UserRecord:
    """Until the end is written nobody claims that the version is set."""
    before = known or UserRecord(None)
    ours = (*before.mechanisms, *(one.mechanism for one in change.credentials))
    return replace(before, mechanisms=tuple(sorted(set(ours))), setting=change.version)


def _done(change: UserChange, known: UserRecord | None) -> UserRecord | None:
    if isinstance(change, AlterUser):
        return replace(_begun(change, known), version=change.version, setting=None)
    if known is None or not change.left:
        return None
    return replace(known, mechanisms=tuple(one for one in known.mechanisms if one not in change.mechanisms))


def _harms(change: UserChange, own: Mapping[str, str], password: str | None) -> bool:
    mechanism = own.get("sasl.mechanism", own.get("sasl.mechanisms", ""))
    if isinstance(change, DeleteUser):
        return mechanism in change.mechanisms
    replaced = any(one.mechanism == mechanism and one.before is not None for one in change.credentials)
    return replaced and own.get("sasl.password") != password


def _disagreeing(wire: UserWire, changes: Collection[UserChange]) -> dict[str, str]:
    """Asks every broker until it shows what was done. Of a password alone nothing can be seen."""
    until = time.monotonic() + AGREE_SECONDS
    for broker in wire.brokers() if changes else ():
        pause = 0.01
        while differing := [one.user for one in changes if not _shows(one, wire.described(broker))]:
            if time.monotonic() > until:
                return dict.fromkeys(differing, f"broker {broker} does not show it yet\nRun plan again.")
            time.sleep(pause)
            pause = min(pause * 2, 1.0)
    return {}


def _shows(change: UserChange, shown: Shown | Unsupported) -> bool:
    there = {} if isinstance(shown, Unsupported) else shown.get(change.user, {})
    if isinstance(change, DeleteUser):
        return not any(mechanism in there for mechanism in change.mechanisms)
    return all(there.get(one.mechanism) == one.after for one in change.credentials)


def _narrowed(planned: Planned) -> UserChange:
    if not isinstance(planned.change, UserChange):
        raise ValueError(f"{planned.id} is no change of a SCRAM user")
    return planned.change

"""Reads and alters the SCRAM users of one cluster (KIP-554), and sets their passwords.

Passwords are salted here: a request carries a random salt and the salted password (RFC 5802), never the password.
The ownership record has ``setting`` before a password is sent, and its version only after it is set: a killed run
leaves an entry that the next plan does not trust.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from reconciler.backends.clusters.in_batches import KindControl, not_shown, unless_refused
from reconciler.backends.connections.credentials import client_settings, secret
from reconciler.backends.connections.errors import SECURITY_DISABLED, Asked
from reconciler.backends.connections.requests import Requests
from reconciler.backends.state.environment_records import USERS, SubjectRecord
from reconciler.errors import ReconcilerError, SecretError, Unknown
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.changes import AlterUser, DeleteUser, UserChange
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveUsers
from reconciler.model.principals import Mechanism, Unsupported, UserRecord, user_words

DESCRIBE = Asked("read the SCRAM users", "Describe", "--cluster")
ALTER = Asked("change SCRAM users", "Alter", "--cluster")
SALT_BYTES = 32
UNSUPPORTED_VERSION = 35
LEADER_AND_ISR = 4
"""API key of a request between controller and brokers that only brokers with ZooKeeper offer (KIP-631)."""
MECHANISMS = {1: Mechanism.SHA_256, 2: Mechanism.SHA_512}
_CODES = {mechanism: code for code, mechanism in MECHANISMS.items()}
_HASHES = {Mechanism.SHA_256: "sha256", Mechanism.SHA_512: "sha512"}
Shown = Mapping[str, Mapping[Mechanism, int]]


def salted(password: str, mechanism: Mechanism, iterations: int, salt: bytes) -> bytes:
    """SaltedPassword of RFC 5802: Hi() is PBKDF2 with HMAC. Like Kafka, without SASLprep of the password."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class Part:
    """One credential of a change. ``iterations``: None to delete it."""

    user: str
    mechanism: Mechanism
    iterations: int | None


def rounds(changes: Sequence[UserChange]) -> Iterator[list[Part]]:
    """Rounds with one credential of each user, because brokers refuse a request that lists a user twice."""
    parts = [
        [Part(change.user, mechanism, None) for mechanism in change.mechanisms]
        if isinstance(change, DeleteUser)
        else [Part(change.user, credential.mechanism, credential.after) for credential in change.credentials]
        for change in changes
    ]
    for number in range(max(map(len, parts), default=0)):
        yield [mine[number] for mine in parts if number < len(mine)]


class UserRequests(Requests):
    """Raises ClusterError."""

    def knows_users(self) -> bool:
        """Whether the brokers support the request (KRaft: since 3.5)."""
        return protocol.DescribeUserScramCredentialsRequest.API_KEY in self.versions()

    def described(self, broker: int | None = None) -> dict[str, dict[Mechanism, int]] | Unsupported:
        """All users in the copy of ``broker``. Unknown mechanisms are left out.

        The request has an empty list, not null: brokers do not answer a null from a principal without the right.
        """
        answer = self.send(DESCRIBE, protocol.DescribeUserScramCredentialsRequest, broker, users=[])
        if answer.error_code in (SECURITY_DISABLED, UNSUPPORTED_VERSION):
            return Unsupported(answer.error_message or f"the brokers refuse the request (error {answer.error_code})")
        self.check(answer.error_code, DESCRIBE, answer.error_message)
        # ZooKeeper stores names percent-encoded, and brokers with ZooKeeper return them so.
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
        """User -> the broker's refusal. ``parts``: of one round."""
        kind = protocol.AlterUserScramCredentialsRequest
        deletions, upsertions = [], []
        for part in parts:
            name, mechanism, iterations = part.user, _CODES[part.mechanism], part.iterations
            if iterations is None:
                deletions.append(kind.ScramCredentialDeletion(name=name, mechanism=mechanism))
                continue
            salt = secrets.token_bytes(SALT_BYTES)
            password = salted(passwords[name], part.mechanism, iterations, salt)
            upsertions.append(
                kind.ScramCredentialUpsertion(
                    name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=password
                )
            )
        answer = self.send(ALTER, kind, deletions=deletions, upsertions=upsertions)
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
        """All users. A refusal is Unknown with the rule to add. Raises ClusterError if the cluster does not answer."""

        def described() -> dict[str, dict[Mechanism, int]] | Unsupported:
            with UserRequests(self.cluster, self.principal) as requests:
                if not requests.knows_users():
                    return Unsupported("the brokers do not know SCRAM users (Kafka 3.5 and newer do)")
                return requests.described()

        by_name = unless_refused(f"users of {self.cluster.name}", described, "unreachable", "authentication")
        if isinstance(by_name, Unknown | Unsupported):
            return LiveUsers(by_name)
        return LiveUsers(by_name, unless_refused(f"ownership record of {self.cluster.name}", self.record.read))

    def failures(self, changes: Sequence[UserChange]) -> list[str]:
        """As ``KindControl``. The record says before the request that a version is being set, since Kafka shows no
        password: after a kill only that says that it may be another one."""
        passwords, failed = self._passwords(changes)
        asked = [change for change in changes if change.user not in failed]
        sent = False
        try:
            if asked:
                known = self.record.read()
                self.record.write({c.user: _begun(c, known.get(c.user)) for c in asked if isinstance(c, AlterUser)})
                with UserRequests(self.cluster, self.principal) as requests:
                    sent = True
                    refused: dict[str, str] = {}
                    touched: set[str] = set()
                    for parts in rounds(asked):
                        left = [part for part in parts if part.user not in refused]
                        answer = requests.altered(left, passwords) if left else {}
                        refused |= {user: f"{self._named(user)}: {words}" for user, words in answer.items()}
                        touched |= {part.user for part in left} - answer.keys()
                    done = [change for change in asked if change.user not in refused]
                    late = not_shown(requests, {change.user: change for change in done}, _is_done)
                # A refused user gets its former entry back, unless one of its credentials was changed before.
                entries = {change.user: _done(change, known.get(change.user)) for change in done}
                self.record.write(entries | {user: known.get(user) for user in refused if user not in touched})
                failed |= refused | {user: f"{self._named(user)}: {words}" for user, words in late.items()}
        except ReconcilerError as error:
            unsure = "\nWhether it was done is not known: the next plan shows it and sets the password again."
            failed |= {c.user: f"{self._named(c.user)}: {error}{unsure if sent else ''}" for c in asked}
        return [failed.get(change.user, "") for change in changes]

    def _passwords(self, changes: Iterable[UserChange]) -> tuple[dict[str, str], dict[str, str]]:
        """User -> password; and user -> why it cannot be read, or must not be changed by this login."""
        passwords: dict[str, str] = {}
        failed: dict[str, str] = {}
        own = client_settings(self.cluster, self.principal)
        mechanism = own.get("sasl.mechanism", own.get("sasl.mechanisms", ""))
        for change in changes:
            try:
                if isinstance(change, AlterUser):
                    passwords[change.user] = secret(change.password)
            except SecretError as error:
                failed[change.user] = f"{self._named(change.user)}: its password cannot be had: {error.what}"
                continue
            # A run that changes its own login could neither finish nor revert it. An unchanged password is fine.
            if own.get("sasl.username") != change.user:
                continue
            if isinstance(change, DeleteUser):
                harms = mechanism in change.mechanisms
            else:
                harms = own.get("sasl.password") != passwords[change.user] and any(
                    credential.mechanism == mechanism and credential.before is not None
                    for credential in change.credentials
                )
            if harms:
                failed[change.user] = (
                    f"{self._named(change.user)}: this run itself logs in as it\n"
                    "It could not connect any more\n"
                    "Let another user do it, or name the same password in the client settings."
                )
        return passwords, failed

    def _named(self, user: str) -> str:
        return f"{self.cluster.name}: {user_words(user)}"


def _begun(change: AlterUser, known: UserRecord | None) -> UserRecord:
    """The record before the change: it does not claim that the version is set."""
    before = known or UserRecord(None)
    ours = (*before.mechanisms, *(credential.mechanism for credential in change.credentials))
    return replace(before, mechanisms=tuple(sorted(set(ours))), setting=change.version)


def _done(change: UserChange, known: UserRecord | None) -> UserRecord | None:
    """The record after the change, None if no credential of ours is left. A deletion keeps the other mechanisms."""
    if isinstance(change, AlterUser):
        return replace(_begun(change, known), version=change.version, setting=None)
    if known is None or not change.left:
        return None
    return replace(
        known, mechanisms=tuple(mechanism for mechanism in known.mechanisms if mechanism not in change.mechanisms)
    )


def _is_done(change: UserChange, shown: Shown | Unsupported) -> bool:
    return change.is_done({} if isinstance(shown, Unsupported) else shown.get(change.user, {}))

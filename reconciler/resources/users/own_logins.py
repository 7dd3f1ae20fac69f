"""The SCRAM users that we log in as, and changes of them that a plan must not make.

A user name behind a secret reference is unknown here, and that is reported.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.model.changes import AlterUser, DeleteUser, Reason, Refused, UserChange, Why
from reconciler.model.environment.topology import OURS, Cluster, Principal, Topology
from reconciler.model.principals import user_words


@dataclass(frozen=True, slots=True)
class OwnLogin:
    """A SCRAM user as which this program itself logs in."""

    principal: Principal
    name: str | None
    """None: behind a secret reference."""
    mechanism: str
    password: str
    """The reference, as written."""


def login_of(cluster: Cluster, principal: Principal) -> OwnLogin | None:
    """None if the principal does not log in by SCRAM."""
    client = cluster.client_for(principal)
    mechanism = client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))
    if not client.get("security.protocol", "").upper().startswith("SASL_") or not mechanism.startswith("SCRAM-"):
        return None
    name = client.get("sasl.username", "")
    return OwnLogin(principal, None if "${" in name else name, mechanism, client.get("sasl.password", ""))


def logs_in_as(cluster: Cluster, principal: Principal) -> str | None:
    login = login_of(cluster, principal)
    return login.name if login is not None else None


def refusals(topology: Topology, cluster: str, changes: Iterable[UserChange]) -> Iterator[Refused]:
    """Changes that would take a user or its password away from our own program, each with the proof."""
    mine = [login for login in _logins(topology, cluster) if login.name is not None]
    for change in changes:
        for login in mine:
            if login.name == change.user and (refusal := _refusal(change, login)):
                yield refusal
                break


def notes(topology: Topology, cluster: str, changes: Iterable[UserChange]) -> Iterator[str]:
    """Notes on logins whose names are not in git, and on jobs that keep a replaced password."""
    asked = list(changes)
    for login in _logins(topology, cluster) if asked else ():
        if login.name is None:
            yield (
                f"not checked whether the {login.principal} principal logs in to {cluster} as one of these users: its"
                " sasl.username is a reference; apply looks for its own before it changes anything"
            )
        elif login.principal is Principal.MIRROR:
            for change in asked:
                if isinstance(change, AlterUser) and change.user == login.name and _is_used(change, login):
                    yield (
                        f"jobs that log in to {cluster} as {login.name} keep the password they were started with, and"
                        " cannot connect again with it: restart them after the apply"
                    )


def _logins(topology: Topology, cluster: str) -> Iterator[OwnLogin]:
    """The logins of this environment on the cluster; the mirror's only if it carries a flow there."""
    carried = {name for mirror in topology.mirrors.values() for name in mirror.flows}
    sides = {side for name in carried for side in (topology.flows[name].source, topology.flows[name].target)}
    for principal in OURS:
        if principal is Principal.MIRROR and cluster not in sides:
            continue
        if (login := login_of(topology.clusters[cluster], principal)) is not None:
            yield login


def _is_used(change: AlterUser, login: OwnLogin) -> bool:
    """Whether the replaced password is the one that this login uses now."""
    return any(
        credential.mechanism.value == login.mechanism and credential.before is not None
        for credential in change.credentials
    )


def _refusal(change: UserChange, login: OwnLogin) -> Refused | None:
    """Refuses to delete the user of our next request, or to change its password."""
    who = "the mirror job" if login.principal is Principal.MIRROR else f"its own {login.principal} principal"
    proof = f"it logs in to {change.cluster} as {change.user} by {login.mechanism}"
    if isinstance(change, DeleteUser):
        if login.mechanism not in {mechanism.value for mechanism in change.mechanisms}:
            return None
        problem = f"this plan would delete {user_words(change.user)} of {change.cluster} from under {who}: {proof}"
        todo = "Keep the user, or first let the client settings name another one"
        return Refused(change.subject, Reason(Why.LOCKS_ITSELF_OUT, problem), todo)
    if not _is_used(change, login) or login.password == change.password:
        return None
    problem = (
        f"this plan would set a password for {user_words(change.user)} of {change.cluster} that {who} does not have"
    )
    shown = login.password if login.password.startswith("${") else "not set"
    text = f"{problem}: {proof}, with sasl.password {shown}, and the new one is {change.password}"
    todo = (
        "Make a second user with the new password, let the client settings name it, and delete this one later; or let"
        " the settings and the user name the same reference"
    )
    return Refused(change.subject, Reason(Why.OWN_PASSWORD, text), todo)

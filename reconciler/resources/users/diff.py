"""Compares desired SCRAM users with the live ones: create, rotate a password by its version, delete.

Passwords are never compared: the ownership record has the version that was set last. Only prune deletes a user that git
no longer declares, and only one that an earlier run created.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.model.changes import (
    About,
    AlterUser,
    CredentialChange,
    DeleteUser,
    Ignored,
    Reason,
    Refused,
    Subject,
    UserChange,
    Why,
)
from reconciler.model.environment.topology import OURS, Cluster, Principal, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Findings, merged
from reconciler.model.principals import (
    AS_FOUND,
    LEAST_ITERATIONS,
    Credentials,
    Mechanism,
    ScramUser,
    Unsupported,
    UserRecord,
    credentials_text,
    user_words,
)
from reconciler.resources.prune import too_many_pruned
from reconciler.text import counted, first_of

Records = Mapping[str, UserRecord]
NO_CREDENTIALS: Credentials = {}


def user_clusters(topology: Topology) -> frozenset[str]:
    """Clusters whose users are read: none if git has no section ``users``."""
    if topology.users_declared:
        return frozenset(topology.clusters)
    return frozenset(name for user in topology.users for name in user.clusters)


def compare_users(topology: Topology, live: LiveState, pruning: bool) -> Findings:
    """``live``: without clusters that answer with another id than declared, and whose failed reads other findings
    report. ``pruning``: delete users that earlier runs created and git no longer names; otherwise a note names them."""
    return merged(_cluster(topology, live, name, pruning) for name in sorted(topology.clusters))


def _cluster(topology: Topology, live: LiveState, name: str, pruning: bool) -> Findings:
    """Users of one cluster: declared ones, and those that earlier runs made and git no longer names."""
    mine = {user.name: user for user in topology.users if name in user.clusters}
    cluster = live.known(name)
    if cluster is None or cluster.users is None:
        return Findings()
    there, recorded = cluster.users.credentials, cluster.users.recorded
    titles = tuple(map(user_words, mine))
    # Brokers before 2.7 have no requests for SCRAM users (KIP-554), and a service may have users of its own.
    if isinstance(there, Unsupported):
        text = f"unsupported here: {there.why}; left out: {', '.join(titles)}"
        ignored = Ignored(Subject(About.USERS, name), "users-unsupported", text)
        return Findings(ignored=(ignored,) if mine else ())
    if isinstance(there, Unknown) or isinstance(recorded, Unknown):
        records = there if isinstance(there, Unknown) else recorded
        assert isinstance(records, Unknown)
        if mine or pruning:
            detail = titles if records is there else ("which versions earlier runs set",)
            return Findings(unknown=(Unknown(f"users {name}", records.error, records.todo, detail),))
        text = f"no entry names it, and its users could not be read: {records.error}"
        return Findings(ignored=(Ignored(Subject(About.USERS, name), "users-not-looked-at", text),))
    # Kafka never returns a password, so versions are compared: the declared one, and the recorded one of the last that
    # was set.
    parts = [_user(name, user, there.get(who, NO_CREDENTIALS), recorded.get(who)) for who, user in mine.items()]
    parts.append(_undeclared(topology, name, mine, there, recorded, pruning))
    # A change of a user that is our own login may lock us out.
    findings = merged(parts)
    changes = [change for change in findings.changes if isinstance(change, UserChange)]
    refused = tuple(refusals(topology, name, changes))
    return replace(
        findings, refused=(*findings.refused, *refused), notes=(*findings.notes, *notes(topology, name, changes))
    )


def _user(cluster: str, user: ScramUser, live: Credentials, record: UserRecord | None) -> Findings:
    """One declared user. A password is set if its version rose. Credentials that an earlier run made for mechanisms
    without a declaration are deleted; credentials of others are only named."""
    if user.absent:
        if not live:
            return _settled(cluster, user)
        reason = Reason(Why.DECLARED_ABSENT, f"declared absent in {user.where}")
        return Findings(changes=(DeleteUser(cluster, user.name, tuple(sorted(live)), (), reason),))
    if refused := _refusal(cluster, user, live, record):
        return Findings(refused=(refused,))
    credentials, reason = _desired_credentials(user, live, record)
    changes: tuple[UserChange, ...] = ()
    if credentials:
        recorded = record.version if record is not None else None
        changes = (AlterUser(cluster, user.name, credentials, recorded, user.version, user.password, reason),)
    others = [mechanism for mechanism in sorted(live) if mechanism not in user.mechanisms]
    ours = tuple(mechanism for mechanism in others if record is not None and mechanism in record.mechanisms)
    if ours:
        left_over = tuple(mechanism for mechanism in sorted({*live, *user.mechanisms}) if mechanism not in ours)
        text = f"made by an earlier run, declared no longer in {user.where}"
        changes = (*changes, DeleteUser(cluster, user.name, ours, left_over, Reason(Why.DECLARED_NO_LONGER, text)))
    strange = {mechanism: live[mechanism] for mechanism in others if mechanism not in ours}
    ignored: tuple[Ignored, ...] = ()
    if strange and user.version > AS_FOUND:
        text = f"{user_words(user.name)}: {credentials_text(strange)}, with a password that no run here set"
        ignored = (Ignored(Subject(About.USERS, cluster), "mechanism-not-declared", text),)
    findings = Findings(changes=changes, ignored=ignored)
    return findings if changes else merged((findings, _settled(cluster, user)))


def _settled(cluster: str, user: ScramUser) -> Findings:
    return Findings(settled=(Subject(About.USER, cluster, user.name),))


def _desired_credentials(
    user: ScramUser, live: Credentials, record: UserRecord | None
) -> tuple[tuple[CredentialChange, ...], Reason]:
    """The credentials to set, and why: all of them for a new password, else those that differ."""
    every = tuple(_credential(user, mechanism, live) for mechanism in sorted(user.mechanisms))
    where = f"declared in {user.where}"
    if record is None:
        if user.version == AS_FOUND:
            return (), Reason(Why.AS_FOUND, where)
        if live:
            return every, Reason(Why.TAKE_OVER, f"{where} with take_over: the existing password is replaced")
        return every, Reason(Why.DECLARED, where)
    if record.setting is not None:
        text = f"an earlier run began to set version {record.setting} and did not come to its end"
        return every, Reason(Why.UNFINISHED, f"{text}; {where}")
    if not live:
        return every, Reason(Why.REMOVED_OUTSIDE, f"{where}; an earlier run made the user, and someone has removed it")
    if record.version is None or user.version > record.version:
        return every, Reason(Why.VERSION_RAISED, f"{where} with version {user.version}")
    missing = tuple(credential for credential in every if credential.before is None)
    if missing:
        return missing, Reason(Why.MECHANISM_MISSING, where)
    return tuple(credential for credential in every if credential.before != credential.after), Reason(
        Why.ITERATIONS, where
    )


def _credential(user: ScramUser, mechanism: Mechanism, live: Credentials) -> CredentialChange:
    before = live.get(mechanism)
    return CredentialChange(mechanism, before, user.iterations or before or LEAST_ITERATIONS)


def _refusal(cluster: str, user: ScramUser, live: Credentials, record: UserRecord | None) -> Refused | None:
    """Why this entry must not be carried out: an older password would come back, a new user lacks one, or clients of a
    user that is not ours would be locked out."""
    subject, who = Subject(About.USER, cluster, user.name), f"{user_words(user.name)} of {cluster}"
    if record is not None and record.version is not None and user.version < record.version:
        problem = f"{who} is declared with version {user.version}, but version {record.version} is set"
        why = f"{problem}: an older password would come back, or git is behind"
        todo = f"Write version {record.version}, or a higher one to set the password again"
        return Refused(subject, Reason(Why.VERSION_LOWERED, why), todo)
    if record is not None:
        return None
    if user.version == AS_FOUND:
        # Version 0 keeps a password that git does not know, so credentials that need it cannot be made.
        if not live:
            problem = f"{who} is declared with version {AS_FOUND}, which keeps the existing password"
            return Refused(
                subject,
                Reason(Why.USER_MISSING, f"{problem}, but no such user is"),
                "Write version: 1 and a password to make it",
            )
        differing = [
            f"{credential.mechanism} {f'has {credential.before} iterations' if credential.before else 'is missing'}"
            for credential in (_credential(user, mechanism, live) for mechanism in sorted(user.mechanisms))
            if credential.before != credential.after
        ]
        if not differing:
            return None
        problem = f"{who} is not as declared ({', '.join(differing)})"
        why = f"{problem}, and version {AS_FOUND} keeps the existing password"
        todo = "A credential is only made together with a password: write version: 1, take_over: true and a password"
        return Refused(subject, Reason(Why.NEEDS_A_PASSWORD, why), todo)
    if live and not user.take_over:
        problem = f"{who} exists ({credentials_text(live)}) and no run from here set its password"
        why = f"{problem}: its clients would be locked out by another one"
        keep = f"To keep its password write version: {AS_FOUND}"
        todo = f"{keep}; to replace it add take_over: true; or take another name"
        return Refused(subject, Reason(Why.USER_NOT_OURS, why), todo)
    return None


def _undeclared(
    topology: Topology,
    cluster: str,
    mine: Mapping[str, ScramUser],
    live_users: Mapping[str, Credentials],
    recorded: Records,
    pruning: bool,
) -> Findings:
    """Users that no entry names: only ``--prune`` deletes them, and only those that runs of this environment set."""
    # A user without a record may be of a person or another tool. Deleting it would end logins of which no file here
    # knows.
    undeclared = sorted(live_users.keys() - mine.keys())
    ours = [who for who in undeclared if who in recorded]
    subject = Subject(About.USERS, cluster)
    ignored = [
        Ignored(subject, "user-unmanaged", f"{user_words(who)}: {credentials_text(live_users[who])}")
        for who in undeclared
        if who not in recorded
    ]
    reason = Reason(Why.PRUNE, "made by an earlier run, declared no longer")
    if pruning:
        deletions = tuple(DeleteUser(cluster, who, tuple(sorted(live_users[who])), (), reason) for who in ours)
        refused = too_many_pruned(topology, f"users of {cluster}", ours, len(live_users.keys() & recorded.keys()))
        return Findings(changes=deletions, refused=tuple(refused), ignored=tuple(ignored))
    ignored += [
        Ignored(subject, "user-left-over", f"{user_words(who)}: {reason.text}; plan --prune deletes it") for who in ours
    ]
    note = f"plan --prune would delete {counted(len(ours), 'SCRAM user')} of {cluster}: {first_of(ours)}"
    return Findings(ignored=tuple(ignored), notes=(note,) if ours else ())


# The SCRAM users that we log in as, and changes of them that a plan must not make.
# A user name behind a secret reference is unknown here, and that is reported.


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
            if login.name == change.user and (refusal := _locks_out(change, login)):
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


def _locks_out(change: UserChange, login: OwnLogin) -> Refused | None:
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

"""Declared SCRAM users x the users of each cluster -> changes, and everything that is refused, left alone or unknown.

Passwords are never compared: the ownership record says which version of one was set. A user that is declared no longer
goes by prune, and only where an earlier run made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.acls import Unsupported
from reconciler.changes import AlterUser, CredentialChange, DeleteUser, Ignored, Reason, Refused, UserChange
from reconciler.counts import counted
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.enrolling.logins import notes, refusals
from reconciler.errors import Unknown
from reconciler.guarding.pruning import PRUNE, names_shown, too_many_pruned
from reconciler.live import LiveState
from reconciler.topology import Topology
from reconciler.users import (
    AS_FOUND,
    LEAST_ITERATIONS,
    Credentials,
    Mechanism,
    ScramUser,
    UserRecord,
    credentials_text,
    user_words,
)

Records = Mapping[str, UserRecord]
NOBODY: Credentials = {}


def compare_users(topology: Topology, live: LiveState, pruning: bool) -> Findings:
    """``live`` without clusters that are not the declared ones; what was not read of them is told elsewhere.
    ``pruning``: users that earlier runs made and git names no longer are deleted; else it is only told which."""
    return merged(_cluster(topology, live, name, pruning) for name in sorted(topology.clusters))


def _cluster(topology: Topology, live: LiveState, name: str, pruning: bool) -> Findings:
    mine = {user.name: user for user in topology.users if name in user.clusters}
    cluster = live.known(name)
    if cluster is None or cluster.users is None:
        return Findings()
    there, recorded = cluster.users.credentials, cluster.users.recorded
    titles = tuple(map(user_words, mine))
    if isinstance(there, Unsupported):
        text = f"unsupported here: {there.why}; left out: {', '.join(titles)}"
        return Findings(ignored=(Ignored(f"users {name}", "users-unsupported", text),)) if mine else Findings()
    if isinstance(there, Unknown) or isinstance(recorded, Unknown):
        found = there if isinstance(there, Unknown) else recorded
        assert isinstance(found, Unknown)
        if mine or pruning:
            detail = titles if found is there else ("which versions earlier runs set",)
            return Findings(unknown=(Unknown(f"users {name}", found.error, found.todo, detail),))
        text = f"no entry names it, and its users could not be read: {found.error}"
        return Findings(ignored=(Ignored(f"users {name}", "users-not-looked-at", text),))
    parts = [_user(name, user, there.get(who, NOBODY), recorded.get(who)) for who, user in mine.items()]
    parts.append(_undeclared(topology, name, mine, there, recorded, pruning))
    return _guarded(topology, name, merged(parts))


def _guarded(topology: Topology, name: str, found: Findings) -> Findings:
    """With what speaks against a change of a user that we log in with ourselves."""
    changes = [change for change in found.changes if isinstance(change, UserChange)]
    refused = tuple(refusals(topology, name, changes))
    return replace(found, refused=(*found.refused, *refused), notes=(*found.notes, *notes(topology, name, changes)))


def _user(cluster: str, user: ScramUser, there: Credentials, record: UserRecord | None) -> Findings:
    if user.absent:
        if not there:
            return _settled(cluster, user)
        reason = Reason("declared-absent", f"declared absent in {user.where}")
        return Findings(changes=(DeleteUser(cluster, user.name, tuple(sorted(there)), (), reason),))
    if refused := _refusal(cluster, user, there, record):
        return Findings(refused=(refused,))
    credentials, reason = _wish(user, there, record)
    changes: tuple[UserChange, ...] = ()
    if credentials:
        recorded = record.version if record is not None else None
        changes = (AlterUser(cluster, user.name, credentials, recorded, user.version, user.password, reason),)
    others = [one for one in sorted(there) if one not in user.mechanisms]
    ours = tuple(one for one in others if record is not None and one in record.mechanisms)
    if ours:
        left = tuple(one for one in sorted({*there, *user.mechanisms}) if one not in ours)
        text = f"made by an earlier run, declared no longer in {user.where}"
        changes = (*changes, DeleteUser(cluster, user.name, ours, left, Reason("declared-no-longer", text)))
    strange = {one: there[one] for one in others if one not in ours}
    ignored: tuple[Ignored, ...] = ()
    if strange and user.version > AS_FOUND:
        text = f"{user_words(user.name)}: {credentials_text(strange)}, with a password that nobody here set"
        ignored = (Ignored(f"users {cluster}", "mechanism-not-declared", text),)
    found = Findings(changes=changes, ignored=ignored)
    return found if changes else merged((found, _settled(cluster, user)))


def _settled(cluster: str, user: ScramUser) -> Findings:
    return Findings(settled=(Settled(f"user {cluster}/{user.name}", "version"),))


def _wish(
    user: ScramUser, there: Credentials, record: UserRecord | None
) -> tuple[tuple[CredentialChange, ...], Reason]:
    """The credentials to be set, and why. All of them where the password is another one, else those that differ."""
    every = tuple(_credential(user, one, there) for one in sorted(user.mechanisms))
    where = f"declared in {user.where}"
    if record is None:
        if user.version == AS_FOUND:
            return (), Reason("as-found", where)
        if there:
            return every, Reason("take-over", f"{where} with take_over: the password that is there is replaced")
        return every, Reason("declared", where)
    if record.setting is not None:
        text = f"an earlier run began to set version {record.setting} and did not come to its end"
        return every, Reason("unfinished", f"{text}; {where}")
    if not there:
        return every, Reason("removed-outside", f"{where}; an earlier run made the user, and someone has removed it")
    if record.version is None or user.version > record.version:
        return every, Reason("version-raised", f"{where} with version {user.version}")
    missing = tuple(one for one in every if one.before is None)
    if missing:
        return missing, Reason("mechanism-missing", where)
    return tuple(one for one in every if one.before != one.after), Reason("iterations", where)


def _credential(user: ScramUser, mechanism: Mechanism, there: Credentials) -> CredentialChange:
    before = there.get(mechanism)
    return CredentialChange(mechanism, before, user.iterations or before or LEAST_ITERATIONS)


def _refusal(cluster: str, user: ScramUser, there: Credentials, record: UserRecord | None) -> Refused | None:
    subject, who = f"user {cluster}/{user.name}", f"{user_words(user.name)} of {cluster}"
    if record is not None and record.version is not None and user.version < record.version:
        what = f"{who} is declared with version {user.version}, but version {record.version} is set"
        why = f"{what}: an older password would come back, or git is behind"
        todo = f"Write version {record.version}, or a higher one to set the password anew"
        return Refused(subject, Reason("version-lowered", why), todo)
    if record is not None:
        return None
    if user.version == AS_FOUND:
        return _refusal_as_found(subject, who, user, there)
    if there and not user.take_over:
        what = f"{who} exists ({credentials_text(there)}) and no run from here set its password"
        why = f"{what}: its clients would be locked out by another one"
        todo = (
            f"To keep its password write version: {AS_FOUND}; to replace it add take_over: true; or take another name"
        )
        return Refused(subject, Reason("user-not-ours", why), todo)
    return None


def _refusal_as_found(subject: str, who: str, user: ScramUser, there: Credentials) -> Refused | None:
    """Version 0 keeps what is there, so everything that needs a password is out of reach."""
    if not there:
        what = f"{who} is declared with version {AS_FOUND}, which keeps the password that is there, but no such user is"
        return Refused(subject, Reason("user-missing", what), "Write version: 1 and a password to make it")
    differing = [
        f"{one.mechanism} {f'has {one.before} iterations' if one.before else 'is missing'}"
        for one in (_credential(user, mechanism, there) for mechanism in sorted(user.mechanisms))
        if one.before != one.after
    ]
    if not differing:
        return None
    what = f"{who} is not as declared ({', '.join(differing)}), and version {AS_FOUND} keeps the password that is there"
    todo = "A credential is only made together with a password: write version: 1, take_over: true and a password"
    return Refused(subject, Reason("needs-a-password", what), todo)


def _undeclared(
    topology: Topology,
    cluster: str,
    mine: Mapping[str, ScramUser],
    there: Mapping[str, Credentials],
    recorded: Records,
    pruning: bool,
) -> Findings:
    left = sorted(there.keys() - mine.keys())
    ours = [who for who in left if who in recorded]
    ignored = [
        Ignored(f"users {cluster}", "user-unmanaged", f"{user_words(who)}: {credentials_text(there[who])}")
        for who in left
        if who not in recorded
    ]
    reason = Reason(PRUNE, "made by an earlier run, declared no longer")
    if pruning:
        deletions = tuple(DeleteUser(cluster, who, tuple(sorted(there[who])), (), reason) for who in ours)
        refused = too_many_pruned(topology, f"users of {cluster}", ours, len(there.keys() & recorded.keys()))
        return Findings(changes=deletions, refused=tuple(refused), ignored=tuple(ignored))
    ignored += [
        Ignored(f"users {cluster}", "user-left-over", f"{user_words(who)}: {reason.text}; plan --prune deletes it")
        for who in ours
    ]
    note = f"plan --prune would delete {counted(len(ours), 'SCRAM user')} of {cluster}: {names_shown(ours)}"
    return Findings(ignored=tuple(ignored), notes=(note,) if ours else ())

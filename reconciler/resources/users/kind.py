"""The kind of SCRAM users: who can log in with a password, and which version of it is set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model import changes
from reconciler.model.live import LiveCluster, LiveUsers
from reconciler.model.plan import Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.principals import AS_FOUND, credentials_text
from reconciler.model.reports.drift import Cause, Deviation, FoundCause, History
from reconciler.model.reports.explain import RuleAnswer
from reconciler.resources.kind import ABSENT, UNKNOWN, Assessment, Counts, Kind, World, of_clusters, tally
from reconciler.resources.topics.explain import ExplainBasis

AFTER_RULES = 2_000
"""Place among the removals; no chain of flows is that long."""
OLD_PASSWORD = "reversible only with the password it had"  # noqa: S105 - words
_KINDS_OF_DRIFT = {
    changes.Why.DECLARED: "user-missing",
    changes.Why.REMOVED_OUTSIDE: "user-missing",
    changes.Why.VERSION_RAISED: "user-version",
}


def assess(change: changes.UserChange, _: World) -> Assessment:
    """Kafka does not report who logs in as a user, so every change of an existing password is a risk."""
    if isinstance(change, changes.DeleteUser):
        by = f" by {' or '.join(change.mechanisms)}" if change.left else ""
        why = f"clients that log in with it{by} cannot connect again; Kafka does not report who does"
        return Assessment(changes.Risk.HIGH, why, OLD_PASSWORD)
    if change.is_new:
        return Assessment(changes.Risk.LOW)
    if change.reason.code is changes.Why.TAKE_OVER:
        why = "the existing password was set by someone else: clients that have it cannot connect any more"
        return Assessment(changes.Risk.HIGH, why, OLD_PASSWORD)
    why = "clients that still have the old password cannot connect again; open connections stay until they end"
    return Assessment(changes.Risk.MEDIUM, why, OLD_PASSWORD)


def _state(cluster: LiveCluster, name: str) -> str:
    users = cluster.users
    if users is None or not isinstance(users.credentials, Mapping) or isinstance(users.recorded, Unknown):
        return UNKNOWN
    record, live_credentials = users.recorded.get(name), users.credentials.get(name)
    recorded = "not ours" if record is None else str(record)
    return f"{credentials_text(live_credentials) if live_credentials else ABSENT}, {recorded}"


def confirm(admin: ClusterAdmin, _: Sequence[changes.UserChange]) -> Callable[[changes.UserChange], bool | None]:
    users = admin.read_users()
    return lambda change: _landed(change, users)


def _landed(change: changes.UserChange, users: LiveUsers) -> bool | None:
    """Only the ownership record shows whether a password was set, so its version is compared and nothing else."""
    if not isinstance(users.credentials, Mapping) or isinstance(users.recorded, Unknown):
        return None
    if isinstance(change, changes.AlterUser):
        record = users.recorded.get(change.user)
        if record is None or record.setting is not None or record.version != change.version:
            return False
    return change.is_done(users.credentials.get(change.user, {}))


def deviations(change: changes.UserChange) -> Iterator[Deviation]:
    """Passwords appear by their versions only."""
    match change:
        case changes.AlterUser():
            desired = credentials_text({credential.mechanism: credential.after for credential in change.credentials})
            live_credentials = {
                credential.mechanism: credential.before
                for credential in change.credentials
                if credential.before is not None
            }
            recorded = "no version of ours" if change.recorded is None else f"version {change.recorded}"
            text = f"{recorded}, {credentials_text(live_credentials) or 'no such credential'}"
            kind = _KINDS_OF_DRIFT.get(change.reason.code, "user")
            yield Deviation(str(change.subject), kind, f"version {change.version}, {desired}", text)
        case changes.DeleteUser():
            text = f"{', '.join(change.mechanisms)} ({change.reason.text})"
            yield Deviation(str(change.subject), "user-left-over", "no such credential", text)
        case _:
            assert_never(change)


def cause(planned: Planned, _: History, __: changes.ConfigChange | None) -> FoundCause:
    """From the cluster's ownership record, which runs on all machines can read."""
    match planned.change:
        case changes.AlterUser(reason=changes.Reason(code=changes.Why.UNFINISHED, text=text)):
            return FoundCause(Cause.HALF_FINISHED, text)
        case changes.AlterUser(reason=changes.Reason(code=changes.Why.REMOVED_OUTSIDE)):
            return FoundCause(Cause.EDITED_OUTSIDE, "an earlier run made the user, and someone has removed it since")
        case changes.AlterUser(reason=changes.Reason(code=changes.Why.MECHANISM_MISSING | changes.Why.ITERATIONS)):
            return FoundCause(
                Cause.UNDETERMINED, "new in git, or changed outside: Kafka does not record who set a credential"
            )
        case changes.AlterUser(version=version):
            return FoundCause(Cause.UNDETERMINED, f"no earlier run set version {version}: new in git")
        case changes.DeleteUser(reason=changes.Reason(code=changes.Why.DECLARED_ABSENT)):
            return FoundCause(Cause.UNDETERMINED, "declared absent, and still or again there")
        case _:
            return FoundCause(Cause.UNDETERMINED, "an earlier run made it, and git names it no longer")


def counts(planned: Sequence[changes.UserChange]) -> Counts:
    """A user that keeps a credential is not deleted."""
    said = (change for change in planned if isinstance(change, changes.AlterUser) or not change.left)
    return tally(said, dict.fromkeys((changes.AlterUser, changes.DeleteUser), "user"))


_BEGINS = "User:"


def credentials_of(basis: ExplainBasis, subject: str) -> tuple[RuleAnswer, ...]:
    """``subject``: ``User:orders-app``."""
    if not subject.startswith(_BEGINS):
        return ()
    name = subject.removeprefix(_BEGINS)
    return tuple(answer for cluster in basis.topology.clusters for answer in _answers(basis, cluster, name))


def _answers(basis: ExplainBasis, cluster: str, name: str) -> Iterator[RuleAnswer]:
    """For ``explain``: the declaration and the live credentials; passwords cannot be read."""
    declared = next((user for user in basis.topology.users if user.name == name and cluster in user.clusters), None)
    known = basis.live.known(cluster) if cluster in basis.answered else None
    live = known.users if known is not None else None
    credentials = live.credentials.get(name) if live is not None and isinstance(live.credentials, Mapping) else None
    if declared is None and not credentials:
        return
    place = declared.where.line_words if declared is not None else ""
    because = "unmanaged: not declared" if declared is None else "declared"
    if declared is None:
        text = credentials_text(credentials or {})
    elif declared.absent:
        text = "absent"
    else:
        version = "the existing password" if declared.version == AS_FOUND else f"version {declared.version}"
        text = f"{', '.join(declared.mechanisms)}, {version}"
    if live is None or not isinstance(live.credentials, Mapping):
        state = ""
    elif credentials:
        record = live.recorded.get(name) if isinstance(live.recorded, Mapping) else None
        state = f"live {credentials_text(credentials)}{'' if record is None else f', {record}'}"
    else:
        state = "missing"
    yield RuleAnswer(cluster, text, because, place, state)


KIND: Kind[changes.UserChange] = Kind(
    name=changes.KindName.USERS,
    changes=(changes.AlterUser, changes.DeleteUser),
    assess=assess,
    place=lambda change: (AFTER_RULES * isinstance(change, changes.DeleteUser), str(change.subject)),
    rests_on=lambda change, _: (change.subject, changes.Subject(changes.About.CLUSTER, change.cluster)),
    states={changes.About.USER: of_clusters(_state)},
    takes_away=(changes.DeleteUser,),
    confirm=confirm,
    deviations=deviations,
    cause=cause,
    counts=counts,
)

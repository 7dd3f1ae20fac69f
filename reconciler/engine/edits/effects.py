"""Finds entries of an edit without effect on clusters, with the reason, by searching the plan of the same edit.

An entry has an effect if the plan changes, blocks or does not know its subject. Every other entry is named, first those
that look like removals.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.engine.edits import noun_effects
from reconciler.engine.edits.compare import SECTIONS
from reconciler.engine.edits.edit_and_plan import OUTSIDE, EditAndPlan, Judge, quiet
from reconciler.engine.edits.fields import NOT_SET
from reconciler.errors import Unknown
from reconciler.model.changes import About, AclChange, AlterQuota, DeleteUser, UserChange
from reconciler.model.principals import AccessRole, AccessRule, AclBinding, Credentials, Mechanism, ScramUser
from reconciler.model.reports.edit import Against, EditComparison, ItemChange, NoEffect, Sign
from reconciler.resources.acls.roles import clusters_of, expand_stable
from reconciler.text import BRIEF, counted, first_of, in_shell

# Finds edited access rules, quotas and SCRAM users without effect.

_SECTIONS = {section.noun: section for section in SECTIONS}
Placed = tuple[str, AclBinding]


def _entries(item: ItemChange, entries: Sequence[Any]) -> list[Any]:
    return [entry for entry in entries if _SECTIONS[item.kind].title(entry) == item.name]


# access rules


def rule(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Edits of an access rule without a change in the plan: its rules stay, were never there, or are there already.
    Nothing is reported for a cluster that was not read."""
    before, after = _entries(item, sides.before.access), _entries(item, sides.after.access)
    clusters = sorted({name for each in (*before, *after) for name in clusters_of(each, sides.after) or each.clusters})
    if sides.outside(clusters):
        yield quiet(item, OUTSIDE)
        return
    if not sides.after.access_declared or sides.unknown(clusters):
        return
    # "No effect" is only said of rules that were read: after a failed read an entry may still do something.
    for here in (known for name in clusters if (known := sides.live.known(name)) is not None):
        if isinstance(here.acls, Unknown) or (here.access is not None and isinstance(here.access.owned, Unknown)):
            return

    # Without an authorizer a cluster has no rules.
    bare = {each.subject.cluster for each in sides.plan.ignored if each.rule == "no-authorizer"}
    if clusters and bare.issuperset(clusters):
        where = first_of(clusters, BRIEF)
        short = f"allows and denies nothing: {where} has no authorizer"
        yield NoEffect(item.kind, item.name, "", "its cluster has no authorizer", "Switch one on", short)
        return

    # Rules of a mirror's entry depend on topics, so the plan is searched by principal.
    changes = [change for change in sides.changes if isinstance(change, AclChange)]
    if any(each.role is AccessRole.MIRROR for each in (*before, *after)):
        principals = {each.principal for each in before or after}
        left = [each for each in sides.plan.unmanaged_acls if each.acl.principal in principals]
        if any(change.acl.principal in principals for change in changes):
            return
        if item.sign is Sign.REMOVED and left:
            yield _stays(item, [(each.cluster, each.acl) for each in left])
        else:
            yield quiet(item, "it changes no access rule")
        return

    # Rules of other entries follow from the entry alone.
    moved = {(change.cluster, change.acl) for change in changes}
    strangers = {(each.cluster, each.acl) for each in sides.plan.unmanaged_acls}
    was, now = _placed(before), _placed(after)
    gone = was - now - _placed(each for each in sides.after.access if each not in after)
    there = {
        (cluster, acl)
        for cluster, acl in gone
        if (live := sides.live.known(cluster)) is not None and isinstance(live.acls, frozenset) and acl in live.acls
    }
    if stays := sorted(gone & strangers, key=str):
        yield _stays(item, stays)
    elif moved & (was | now):
        return
    elif there:
        yield _asked(item, "a flow or a wider rule")
    elif gone:
        yield quiet(item, "its rules were not there")
    elif was - now:
        yield _asked(item, "another entry")
    elif any(each.absent for each in after):
        yield quiet(item, "no such rules are there")
    else:
        yield quiet(item, "its rules are there already")


def _stays(item: ItemChange, stays: Sequence[Placed]) -> NoEffect:
    who = ", ".join(sorted({acl.principal for _, acl in stays}))
    where = first_of(sorted({cluster for cluster, _ in stays}), BRIEF)
    rules = f"{counted(len(stays), 'access rule')} of {who} stay{'s' if len(stays) == 1 else ''}"
    listed = first_of([f"{cluster}: {acl}" for cluster, acl in stays], BRIEF)
    why = f"no apply from here made these rules or found them declared, so they stay: {listed}"
    todo = "To revoke them, put the entry back with absent: true"
    return NoEffect(item.kind, item.name, "", why, todo, f"revokes nothing: {rules} on {where}")


def _asked(item: ItemChange, by: str) -> NoEffect:
    """An edit that looks like a revocation."""
    short = f"revokes nothing of {item.name}: {by} asks for the same rules"
    return NoEffect(item.kind, item.name, "", f"{by} still asks for the same rules", "Take them out there, too", short)


def _placed(rules: Iterable[AccessRule]) -> set[Placed]:
    made = [each for each in rules if not each.absent]
    return {(cluster, acl) for each in made for cluster in each.clusters for acl in expand_stable(each)}


# quotas


def quota(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Edits of a quota without a change in the plan: limits stay when they leave the files, or are already as declared.
    Nothing is reported for an unread cluster."""
    before, after = _entries(item, sides.before.quotas), _entries(item, sides.after.quotas)
    every = [*before, *after]
    clusters = sorted({name for each in every for name in each.clusters})
    if sides.outside(clusters):
        yield quiet(item, OUTSIDE)
        return
    known = [sides.live.known(name) for name in clusters]
    if not sides.after.quotas_declared or sides.unknown(clusters):
        return
    if any(live is not None and isinstance(live.quotas, Unknown) for live in known):
        return
    # Only clusters that were read get this far, so a limit that is absent below is proved absent.
    whom = every[0].entity
    here = {
        change.cluster: change for change in sides.changes if isinstance(change, AlterQuota) and change.entity == whom
    }
    kept = sorted({name for each in after for name in each.clusters})
    left = [name for name in clusters if name not in kept and name not in here and _limits(sides, name, whom)]
    gone = [field for field in item.fields if field.after == NOT_SET and field.path != "clusters" and field.means]
    if left:
        keys = sorted({key for name in left for key in _limits(sides, name, whom)})
        yield _quota_stays(item, keys, left)
    elif gone and item.sign is Sign.CHANGED and (limited := [name for name in kept if _limits(sides, name, whom)]):
        yield _quota_stays(item, [field.path for field in gone], limited)
    elif not here:
        wanted = any(not each.absent for each in after)
        yield quiet(item, "its limits are as declared already" if wanted else "there is no such limit")
    else:
        limits = {key for each in after for key in each.limits}
        moved = {limit.key for change in here.values() for limit in change.limits}
        for field in item.fields if item.sign is Sign.CHANGED else ():
            if field.path in limits - moved:
                yield quiet(item, "this limit is as declared already", field)


def _quota_stays(item: ItemChange, keys: Sequence[str], clusters: Sequence[str]) -> NoEffect:
    short = f"lifts nothing: {', '.join(keys)} of {item.name} stays on {first_of(clusters, BRIEF)}"
    todo = f"To lift it, write absent: true for the whole entry, or remove: [{', '.join(keys)}]"
    return NoEffect(item.kind, item.name, "", "a limit that is no longer written stays", todo, short)


def _limits(sides: EditAndPlan, cluster: str, whom: Any) -> Mapping[str, float]:
    live = sides.live.known(cluster)
    quotas = live.quotas if live is not None else None
    return {} if quotas is None or isinstance(quotas, Unknown) else quotas.get(whom, {})


# users


def user(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """The same for SCRAM users: a user that leaves the files stays, a password is compared only by its version, and
    credentials that no apply has set are not ours to delete."""
    before, after = _entries(item, sides.before.users), _entries(item, sides.after.users)
    clusters = sorted({name for each in (*before, *after) for name in each.clusters})
    if sides.outside(clusters):
        yield quiet(item, OUTSIDE)
        return
    # Credentials that could not be read are unknown: the edit may have an effect, and the plan says what is missing.
    users = [live.users for name in clusters if (live := sides.live.known(name)) is not None]
    if not sides.after.users_declared or sides.unknown(clusters):
        return
    if any(each is not None and isinstance(each.credentials, Unknown) for each in users):
        return
    # A user stays behind on clusters where it has credentials, and neither an entry nor a planned change.
    moved = {change.cluster for change in sides.changes if isinstance(change, UserChange) and change.user == item.name}
    blocked = {each.subject.cluster for each in sides.plan.refused if each.subject.about is About.USER}
    kept = {name for each in after for name in each.clusters}
    if left := [name for name in clusters if name not in kept | moved and _logins(sides, name, item.name)]:
        short = f"removes no user: {item.name} can still log in on {first_of(left, BRIEF)}"
        todo = "To delete the user, put the entry back with absent: true"
        yield NoEffect(item.kind, item.name, "", "a user that is no longer declared stays", todo, short)
    elif stay := _logins_that_stay(item.name, before, after, sides):
        names, where = ", ".join(sorted({word for words in stay.values() for word in words})), first_of([*stay], BRIEF)
        short = f"removes no login: {item.name} can still log in by {names} on {where}"
        first, word = next((name, words[0]) for name, words in stay.items())
        todo = (
            f"kafka-configs.sh --bootstrap-server {sides.after.clusters[first].bootstrap_servers[0]} --alter"
            f" --entity-type users --entity-name {in_shell(item.name)} --delete-config {word}"
        )
        why = "a credential that no apply from here has set stays"
        yield NoEffect(item.kind, item.name, "mechanisms", why, todo, short)
    elif not moved | blocked:
        fields = [field for field in item.fields if field.path == "password"]
        if item.sign is Sign.CHANGED and fields:
            short = f"sets no password: that of user {item.name} is set only when its version rises"
            todo = "Raise version in the same entry"
            yield NoEffect(item.kind, item.name, "password", "passwords are compared by version", todo, short)
        else:
            wanted = any(not each.absent for each in after)
            yield quiet(item, "the user is as declared already" if wanted else "there is no such user")


def _logins(sides: EditAndPlan, cluster: str, user: str) -> Credentials:
    live = sides.live.known(cluster)
    logins = live.users.credentials if live is not None and live.users is not None else {}
    return logins.get(user, {}) if isinstance(logins, Mapping) else {}


def _logins_that_stay(
    name: str, before: Sequence[ScramUser], after: Sequence[ScramUser], sides: EditAndPlan
) -> Mapping[str, list[Mechanism]]:
    """Cluster -> mechanisms that left the entry but that the plan does not delete."""
    deletions = [change for change in sides.changes if isinstance(change, DeleteUser) and change.user == name]
    gone = {(change.cluster, mechanism) for change in deletions for mechanism in change.mechanisms}
    stay: dict[str, list[Mechanism]] = {}
    for now in after:
        for cluster in () if now.absent else now.clusters:
            there = _logins(sides, cluster, name)
            was = {mechanism for each in before if cluster in each.clusters for mechanism in each.mechanisms}
            left = sorted(was.difference(now.mechanisms).intersection(there))
            if left := [mechanism for mechanism in left if (cluster, mechanism) not in gone]:
                stay[cluster] = left
    return stay


JUDGES: Mapping[str, Judge] = {"access rule": rule, "quota": quota, "user": user}


_JUDGES = {**noun_effects.JUDGES, **JUDGES}
LED_BY = 2
"""Most edits without effect in a plan's headline."""


def without_effect(comparison: EditComparison, sides: EditAndPlan) -> tuple[NoEffect, ...]:
    effectless = [
        each for item in comparison.items for each in _JUDGES.get(item.kind, noun_effects.of_later_runs)(item, sides)
    ]
    return tuple(sorted(effectless, key=lambda each: not each.headline))


def lead(
    effectless: tuple[NoEffect, ...], comparison: EditComparison | None = None, against: Against | None = None
) -> str:
    """A headline such as ``This edit revokes nothing: 3 access rules of User:a stay on east.`` Empty if the plan has a
    change for each entry."""
    said: list[str] = []
    for each in effectless:
        setting = f" ({each.setting})" if each.setting else ""
        said.append(each.headline or f"has no effect in {each.kind} {each.name}{setting}: {each.why}")
    said = list(dict.fromkeys(said))
    if comparison is not None and comparison.empty and not comparison.same_text:
        said.append("changes no declared value: only comments, layout, order or spelling")
    left = len(said) - LED_BY
    more = f"; {counted(left, 'more edit')} {'has' if left == 1 else 'have'} no effect" if left > 0 else ""
    who = "Going back" if against is not None and against.revert else "This edit"
    return f"{who} {'; it '.join(said[:LED_BY])}{more}. " if said else ""

"""Compares two versions of an environment without asking a cluster.

It knows only declared topics and their remote topics; live topics that a flow also matches are left to the plan.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from reconciler.engine.edits import flows
from reconciler.engine.edits.fields import NOT_SET, changed_fields, meaning, reaching, whole
from reconciler.engine.rollout.waves import course_of
from reconciler.errors import NOWHERE
from reconciler.model.changes import Risk
from reconciler.model.config_values import duration
from reconciler.model.environment.rollout import Course
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import AS_FOUND, WILDCARD, AccessRule, Permission, Quota, ScramUser, limit_words
from reconciler.model.reports.edit import EditComparison, FieldChange, ItemChange, Sign
from reconciler.resources.flows.renames import as_called_now, entry
from reconciler.resources.topics.diff_deletions import STAYS
from reconciler.text import counted, grouped

_REMOVED = {
    "topic": "it stays on its clusters, unmanaged: only a tombstone deletes a topic",
    "flow": "it is no longer copied; what was copied stays",
    "mirror": "its job is stopped",
    "cluster": "nothing there is compared any more",
}


def compare(before: Topology | None, after: Topology) -> EditComparison:
    """``before``: None for a new environment, in which every entry is new."""
    # First the renames: a renamed flow would otherwise be one that went and one that came, with all their topics.
    base = as_called_now(before or Topology(after.environment, {}, {}, {}, {}), after)
    items = (
        *_items("cluster", base.clusters, after.clusters, base, after),
        *_items("topic", base.topics, after.topics, base, after),
        *_items("flow", base.flows, after.flows, base, after),
        *_items("mirror", base.mirrors, after.mirrors, base, after),
        *_tombstones(base, after),
        *(item for section in SECTIONS for item in section.items(base, after)),
        *_rules(base, after),
        *_rollout(base, after),
    )
    # A flow that gains what another loses was usually renamed without `moved`. Its positions would stay behind, so its
    # line says that.
    routes = flows.declared_routes(base), flows.declared_routes(after)
    impacts = tuple(flows.flow_impacts(*routes))
    taken = flows.takeovers(impacts)
    items = tuple(
        replace(item, means=taken[item.name]) if item.kind == "flow" and item.name in taken else item for item in items
    )
    items = tuple(_with_rename(item, base, after) for item in items)
    return EditComparison(
        environment=after.environment,
        items=items,
        follows=tuple(flows.following(*routes)),
        flows=impacts,
        mirrors=tuple(flows.mirror_impacts(flows.TopologySides(before or base, base, after, routes, items))),
        new=before is None,
    )


def _items(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], base: Topology, now: Topology
) -> Iterator[ItemChange]:
    """Entries of one section that were added, removed or changed, by name. ``before`` and ``after``: the section in
    ``base`` and ``now``."""
    for name in sorted(before.keys() | after.keys()):
        noun = after[name] if name in after else before[name]
        place = noun.where.line_words
        if name not in before:
            yield ItemChange(Sign.ADDED, kind, name, place, fields=tuple(whole(noun)))
        elif name not in after:
            yield ItemChange(Sign.REMOVED, kind, name, place, _REMOVED[kind])
        elif before[name] != noun:
            fields = tuple(meaning(field, noun, base, now) for field in changed_fields(before[name], noun))
            if fields:
                yield ItemChange(Sign.CHANGED, kind, name, place, fields=fields)


def _with_rename(item: ItemChange, base: Topology, now: Topology) -> ItemChange:
    """``item`` with its new or former name, if it is a topic or flow with an equal one under another name on the other
    side."""
    sides: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "topic": (base.topics, now.topics),
        "flow": (base.flows, now.flows),
    }
    if item.kind not in sides or item.sign is Sign.CHANGED:
        return item
    before, after = sides[item.kind]
    mine, other = (before, after) if item.sign is Sign.REMOVED else (after, before)
    # Equal but for the name: nothing else shows a rename, as git declares no ids.
    noun = replace(mine[item.name], name="")
    twins = [name for name in mine.keys() - other.keys() if replace(mine[name], name="") == noun]
    alike = [name for name in other.keys() - mine.keys() if replace(other[name], name="") == noun]
    if len(alike) != 1 or len(twins) != 1:
        return item  # ambiguous: each of several equal ones may be the renamed one
    old, new = (item.name, alike[0]) if item.sign is Sign.REMOVED else (alike[0], item.name)
    if item.kind == "topic":
        item = replace(item, renamed=alike[0])
    if item.sign is Sign.REMOVED:
        like = f"; {new} is like it under another name" if item.kind == "topic" else ""
        return replace(item, means=f"{item.means}{like}")
    if item.kind == "topic":
        means = f"like {old} under another name: {STAYS.format(old=old, new=new)}"
    else:
        means = item.means or (
            f"like {old} under another name: positions belong to a flow's name and stay behind, so partitions"
            f" that {old} had copied stop with position_missing until mirror seek {new} --from-flow {old}"
        )
        means += f"; to rename {old}, write {entry(old, new)}, which keeps them"
    return replace(item, means=means)


def _tombstones(base: Topology, now: Topology) -> Iterator[ItemChange]:
    """Edited tombstones, by topic and topic id: the same name with another id is another deletion."""
    old = {(tombstone.ref, tombstone.topic_id): tombstone for tombstone in base.deletions}
    new = {(tombstone.ref, tombstone.topic_id): tombstone for tombstone in now.deletions}
    for key in sorted(old.keys() | new.keys()):
        tombstone = new.get(key) or old[key]
        where = tombstone.where.line_words
        if key not in old:
            means = f"the topic with id {tombstone.topic_id} is deleted with all its records: {tombstone.reason}"
            yield ItemChange(Sign.ADDED, "deletion", str(tombstone.ref), where, means)
        elif key not in new:
            means = "a topic it deleted does not come back"
            yield ItemChange(Sign.REMOVED, "deletion", str(tombstone.ref), where, means)
        elif fields := tuple(changed_fields(old[key], tombstone)):
            yield ItemChange(Sign.CHANGED, "deletion", str(tombstone.ref), where, fields=fields)


def _rules(base: Topology, now: Topology) -> Iterator[ItemChange]:
    """Edits for the whole environment: defaults, classes, protections, the shrink limit."""
    old, new = base.rules, now.rules
    fields: list[FieldChange] = []
    # Defaults reach every topic that does not override them, so each changed field names its reach.
    for field in changed_fields(old.defaults, new.defaults):
        key = field.path.removeprefix("configs.")
        count = sum(key not in topic.configs for topic in now.topics.values())
        reach = f"for {counted(count, 'declared topic')} at most, and for remote topics"
        fields.append(reaching(field, reach, old.defaults, new.defaults))
    if fields:
        place = new.defaults.where.line_words
        yield ItemChange(Sign.CHANGED, "defaults", "of the environment", place, fields=tuple(fields))

    # A class reaches only its own topics; without it they keep what they have.
    for name in sorted(old.classes.keys() | new.classes.keys()):
        layer = new.classes[name] if name in new.classes else old.classes[name]
        place = layer.where.line_words
        if name not in old.classes:
            yield ItemChange(Sign.ADDED, "class", name, place, fields=tuple(whole(layer)))
        elif name not in new.classes:
            yield ItemChange(Sign.REMOVED, "class", name, place, "no topic gets its values any more")
        elif changed := tuple(changed_fields(old.classes[name], layer)):
            count = sum(topic.class_name == name for topic in now.topics.values())
            reach = f"for the {counted(count, 'topic')} of the class"
            reached = tuple(reaching(field, reach, old.classes[name], layer) for field in changed)
            yield ItemChange(Sign.CHANGED, "class", name, place, fields=reached)

    was, protected = ({each.pattern: each.where for each in rules.protected} for rules in (old, new))
    for pattern in sorted(was.keys() ^ protected.keys()):
        sign, where = (Sign.REMOVED, was[pattern]) if pattern in was else (Sign.ADDED, protected[pattern])
        means = "such topics may be deleted from now on" if pattern in was else "nothing deletes such topics"
        yield ItemChange(sign, "protection", pattern, where.line_words, means)

    if old.audit != new.audit and (audit := new.audit or old.audit) is not None:
        sign = Sign.CHANGED if old.audit and new.audit else Sign.ADDED if new.audit else Sign.REMOVED
        means = "where each run is recorded besides"
        yield ItemChange(sign, "audit", f"topic {audit.topic}", audit.where.line_words, means)
    if limits := tuple(changed_fields(old.shrink_limit, new.shrink_limit)):
        means, was_limit, now_limit = "how much may be lost at once unasked", old.shrink_limit, new.shrink_limit
        lost = tuple(
            replace(field, means="more may be lost at once unasked", risk=Risk.MEDIUM)
            if getattr(now_limit, field.path) > getattr(was_limit, field.path)
            else replace(field, means=means)
            for field in limits
        )
        yield ItemChange(Sign.CHANGED, "limit", "shrink_limit", fields=lost)
    # Webhooks have no name, so an edited one is one removed and one added.
    for sign, hooks in ((Sign.REMOVED, old.webhooks), (Sign.ADDED, new.webhooks)):
        for hook in hooks:
            if hook not in (new if sign is Sign.REMOVED else old).webhooks:
                means = f"gets notices of {', '.join(hook.events)} as {hook.form}"
                yield ItemChange(sign, "webhook", hook.url, hook.where.line_words, means)
    if old.docs_url != new.docs_url:
        means = f"runbooks lead to {new.docs_url or 'no page, and are paths'}; in a running job from its next start"
        yield ItemChange(Sign.CHANGED, "setting", "docs_url", means=means)


def _rollout(base: Topology, now: Topology) -> Iterator[ItemChange]:
    """Waves, soak and gates; then hooks of cut-overs, and earlier names of the environment (``moved``)."""
    # Courses are compared, not their YAML: a soak time of each wave and one of the whole rollout may mean the same.
    old, new, rollout = course_of(base), course_of(now), now.rollout or base.rollout
    place = (rollout.where if rollout else NOWHERE).line_words
    means = "the order of the next apply; nothing on a cluster changes by itself"
    was, is_now = (_leaves(course) if course else {} for course in (old, new))
    if old is None and new is not None:
        fields = tuple(FieldChange(path, NOT_SET, value) for path, value in is_now.items())
        yield ItemChange(Sign.ADDED, "rollout", "of the environment", place, means, fields)
    elif old is not None and new is None:
        gone = "apply does everything in one go from now on, without gates"
        yield ItemChange(Sign.REMOVED, "rollout", "of the environment", place, gone)
    elif old != new:
        fields = tuple(
            FieldChange(path, was.get(path, NOT_SET), is_now.get(path, NOT_SET), means=means)
            if is_now.get(path) != "ignored"
            else FieldChange(path, was[path], "ignored", "no apply waits for it from now on", Risk.MEDIUM)
            for path in dict.fromkeys((*was, *is_now))
            if was.get(path) != is_now.get(path)
        )
        yield ItemChange(Sign.CHANGED, "rollout", "of the environment", place, fields=fields)
    for name in sorted(base.hooks.keys() | now.hooks.keys()):
        before, after = base.hooks.get(name), now.hooks.get(name)
        if before != after and (hook := after or before) is not None:
            sign = Sign.CHANGED if before and after else Sign.ADDED if after else Sign.REMOVED
            means = f"what a cut-over does at its step {name}: {after.words if after else 'nothing'}"
            yield ItemChange(sign, "hook", name, hook.where.line_words, means)
    for name in sorted({*base.moved_from} ^ {*now.moved_from}):
        if name in now.moved_from:
            means = f"flows that environment {name} began are this environment's from now on"
            yield ItemChange(Sign.ADDED, "earlier name", name, NOWHERE.line_words, means)
        else:
            means = f"flows that environment {name} began and that kept no position since are refused (flow-not-ours)"
            yield ItemChange(Sign.REMOVED, "earlier name", name, NOWHERE.line_words, means)


def _leaves(course: Course) -> dict[str, str]:
    """A rollout as flat texts by path, so that its changes are shown like those of other fields."""
    leaves, gates = {"waves": ", then ".join(course.names)}, course.gates
    for wave in course.waves:
        leaves[f"waves.{wave.name}.clusters"] = ", ".join(wave.clusters)
        leaves[f"waves.{wave.name}.soak"] = duration(wave.soak_ms)
    return leaves | {
        "gates.offline_partitions": str(gates.offline_partitions),
        "gates.under_replicated_partitions": str(gates.under_replicated_partitions),
        "gates.lag": "ignored" if gates.lag_ms is None else duration(gates.lag_ms),
        "gates.mirrors": gates.mirrors.value,
        "gates.wait": duration(gates.wait_ms),
    }


# Compares sections of unnamed entries in an edit: access rules, quotas, SCRAM users.
# Two different entries with the same subject are one edited entry. Rules of a role on each cluster, and gains and
# losses of access, are left to the live plan.

Entry = TypeVar("Entry", AccessRule, Quota, ScramUser)
NOT_COMPARED = "what exists stays and is no longer compared"
_NO_PART = "an absent user has none"
_IN_TITLE = {"principal", "role", "entity.parts", "name", "number"}


@dataclass(frozen=True, slots=True)
class EditedSection(Generic[Entry]):
    """``gone``, ``absent_gone``: meaning of the removal of an entry, and of one with ``absent``."""

    name: str
    noun: str
    of: Callable[[Topology], tuple[bool, Sequence[Entry]]]
    """Whether the section exists, and its entries."""
    title: Callable[[Entry], str]
    gone: str
    absent_gone: str
    meaning: Callable[[FieldChange, Entry], FieldChange]
    """Meaning of a changed field."""

    def items(self, base: Topology, now: Topology) -> Iterator[ItemChange]:
        """Edited entries. An empty section counts, too: it makes plans read and compare its kind."""
        (was_declared, before), (is_declared, after) = self.of(base), self.of(now)
        if is_declared and not was_declared:
            yield ItemChange(Sign.ADDED, "section", self.name, means="read on every cluster from now on, and compared")
        elif was_declared and not is_declared:
            yield ItemChange(Sign.REMOVED, "section", self.name, means=NOT_COMPARED)
        old, new = (grouped((self.title(entry), entry) for entry in entries) for entries in (before, after))
        for title in sorted(old.keys() | new.keys()):
            # Entries with the same title have no other key, so differing ones are paired in their order.
            gone = [entry for entry in old.get(title, []) if not _among(entry, new.get(title, []))]
            come = [entry for entry in new.get(title, []) if not _among(entry, old.get(title, []))]
            for one, other in zip(gone, come, strict=False):
                changed = (self.meaning(_plain(field), other) for field in _changed(one, other))
                fields = tuple(field for field in changed if field.means != _NO_PART)
                yield ItemChange(Sign.CHANGED, self.noun, title, other.where.line_words, fields=fields)
            for left in gone[len(come) :]:
                means = (self.absent_gone if left.absent else self.gone) if is_declared else NOT_COMPARED
                yield ItemChange(Sign.REMOVED, self.noun, title, left.where.line_words, means)
            for left in come[len(gone) :]:
                own = (field for field in whole(replace(left, number=0)) if field.path not in _IN_TITLE)
                fields = tuple(self.meaning(_plain(field), left) for field in own)
                yield ItemChange(Sign.ADDED, self.noun, title, left.where.line_words, fields=fields)


def _among(entry: Entry, others: Iterable[Entry]) -> bool:
    """Whether an equal entry is among others, ignoring its number in the file and the order of its lists."""
    return any(next(_changed(entry, other), None) is None for other in others)


def _changed(was: Entry, now: Entry) -> Iterator[FieldChange]:
    fields = changed_fields(replace(was, number=0), replace(now, number=0))
    return (field for field in fields if not field.means)


def _plain(field: FieldChange) -> FieldChange:
    """The field under its YAML name: fields of an exact rule and limits of a quota are on the entry itself."""
    section, _, key = field.path.partition(".")
    if section == "exact":
        return replace(field, path=key)
    if section == "limits":
        return replace(field, path=key, before=_limit(key, field.before), after=_limit(key, field.after))
    return field


def _limit(key: str, value: str) -> str:
    return value if value in ("", NOT_SET) else limit_words(key, float(value))


def _title(rule: AccessRule) -> str:
    if rule.exact is None:
        return f"{rule.principal}: {rule.role}"
    return f"{rule.principal}: {rule.exact.permission.name.lower()} on {rule.exact.resource.name.lower()}"


def _of_rule(field: FieldChange, rule: AccessRule) -> FieldChange:
    """The field with risk and words if it is dangerous: deletion of rules of any origin, denials, wildcards."""
    denies = rule.exact is not None and rule.exact.permission is Permission.DENY
    if field.path == "absent" and rule.absent:
        return replace(field, means="such rules are deleted, no matter who made them", risk=Risk.MEDIUM)
    if field.path == "permission" and denies:
        return replace(field, means="a deny rule wins over everything that allows", risk=Risk.MEDIUM)
    everything = WILDCARD in field.after.split(", ") and WILDCARD not in field.before.split(", ")
    if everything and field.path not in ("hosts", "clusters") and not (denies or rule.absent):
        return replace(field, means="all there are and will be", risk=Risk.MEDIUM)
    return field


def _of_quota(field: FieldChange, quota: Quota) -> FieldChange:
    if field.after != NOT_SET or field.path == "clusters":
        return field
    taken = quota.absent or field.path in quota.remove
    return replace(field, means="" if taken else "the limit stays: only remove deletes it")


def _of_user(field: FieldChange, user: ScramUser) -> FieldChange:
    if field.path == "absent" and user.absent:
        return replace(field, means="no client can log in as this user any more", risk=Risk.HIGH, irreversible=True)
    if user.absent:  # other fields have no part in it
        return replace(field, means=_NO_PART)
    if field.path == "version" and field.before.isdecimal() and user.version < int(field.before):
        return replace(field, means="refused where that version is set: an older password would come back")
    if field.path == "version" and field.before and user.version != AS_FOUND:
        means = "a new password is set; clients that log in with the old one are refused from then on"
        return replace(field, means=means, risk=Risk.MEDIUM)
    if field.path == "iterations" and field.before:
        return replace(field, means="the password of the same version is set again", risk=Risk.MEDIUM)
    if field.path == "mechanisms" and (gone := set(field.before.split(", ")) - {"", *user.mechanisms}):
        means = f"no client can log in by {', '.join(sorted(gone))} any more, where an apply from here set it"
        return replace(field, means=means, risk=Risk.HIGH, irreversible=True)
    return field


SECTIONS: tuple[EditedSection[Any], ...] = (
    EditedSection(
        name="access",
        noun="access rule",
        of=lambda topology: (topology.access_declared, topology.access),
        title=_title,
        gone="rules that an apply from here made or found declared are deleted, unless another entry asks for them;"
        " others stay",
        absent_gone="nothing ensures any more that there are no such rules",
        meaning=_of_rule,
    ),
    EditedSection(
        name="quotas",
        noun="quota",
        of=lambda topology: (topology.quotas_declared, topology.quotas),
        title=lambda quota: str(quota.entity),
        gone="an entry that is gone takes no limit away; prune takes those of earlier runs",
        absent_gone="nothing ensures any more that there is no limit",
        meaning=_of_quota,
    ),
    EditedSection(
        name="users",
        noun="user",
        of=lambda topology: (topology.users_declared, topology.users),
        title=lambda user: user.name,
        gone="the user stays on its clusters; prune deletes whom an earlier run made",
        absent_gone="nothing ensures any more that there is no such user",
        meaning=_of_user,
    ),
)

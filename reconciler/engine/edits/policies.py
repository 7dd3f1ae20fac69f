"""How an edit changes what counts for the whole environment: defaults, classes, protections, the shrink limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.comparing.fields import changed_fields, whole
from reconciler.comparing.meanings import reaching
from reconciler.comparison import FieldChange, ItemChange, Sign
from reconciler.counts import counted
from reconciler.errors import Where
from reconciler.topology import AuditTopic, TopicDefaults, Topology


def rule_items(before: Topology, after: Topology) -> Iterator[ItemChange]:
    was, now = before.rules, after.rules
    sides = was.defaults, now.defaults
    if fields := tuple(reaching(one, _everywhere(after, one), *sides) for one in changed_fields(*sides)):
        yield ItemChange(Sign.CHANGED, "defaults", "of the environment", _place(now.defaults.where), fields=fields)
    yield from _classes(was.classes, now.classes, after)
    old, new = ({one.pattern: one.where for one in rules.protected} for rules in (was, now))
    for pattern in sorted(old.keys() | new.keys()):
        if pattern not in old:
            yield ItemChange(Sign.ADDED, "protection", pattern, _place(new[pattern]), "nothing deletes such topics")
        elif pattern not in new:
            means = "such topics may be deleted from now on"
            yield ItemChange(Sign.REMOVED, "protection", pattern, _place(old[pattern]), means)
    yield from _audit(was.audit, now.audit)
    if fields := tuple(changed_fields(was.shrink_limit, now.shrink_limit)):
        told = tuple(replace(one, means="how much may be lost at once unasked") for one in fields)
        yield ItemChange(Sign.CHANGED, "limit", "shrink_limit", fields=told)


def _audit(was: AuditTopic | None, now: AuditTopic | None) -> Iterator[ItemChange]:
    if was == now:
        return
    sign = Sign.CHANGED if was and now else Sign.ADDED if now else Sign.REMOVED
    told = now or was
    assert told is not None
    yield ItemChange(sign, "audit", f"topic {told.topic}", _place(told.where), "where each run is recorded besides")


def _classes(
    was: Mapping[str, TopicDefaults], now: Mapping[str, TopicDefaults], after: Topology
) -> Iterator[ItemChange]:
    for name in sorted(was.keys() | now.keys()):
        if name not in was:
            yield ItemChange(Sign.ADDED, "class", name, _place(now[name].where), fields=tuple(whole(now[name])))
        elif name not in now:
            yield ItemChange(Sign.REMOVED, "class", name, _place(was[name].where), "no topic gets its values any more")
        elif fields := tuple(changed_fields(was[name], now[name])):
            count = sum(topic.class_name == name for topic in after.topics.values())
            reach = f"for the {counted(count, 'topic')} of the class"
            told = tuple(reaching(one, reach, was[name], now[name]) for one in fields)
            yield ItemChange(Sign.CHANGED, "class", name, _place(now[name].where), fields=told)


def _everywhere(after: Topology, field: FieldChange) -> str:
    key = field.path.removeprefix("configs.")
    count = sum(key not in topic.configs for topic in after.topics.values())
    return f"for {counted(count, 'declared topic')} at most, and for remote topics"


def _place(where: Where) -> str:
    return f"{where.file}:{where.line}" if where.line else ""

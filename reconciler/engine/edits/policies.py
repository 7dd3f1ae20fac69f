"""What an edit changes for the whole environment: defaults, classes, protections, the shrink limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.engine.edits.fields import changed_fields, whole
from reconciler.engine.edits.meaning import reaching
from reconciler.model.environment.topology import AuditTopic, TopicDefaults, Topology
from reconciler.model.reports.edit import FieldChange, ItemChange, Sign
from reconciler.text import counted


def rule_items(before: Topology, after: Topology) -> Iterator[ItemChange]:
    was, now = before.rules, after.rules
    sides = was.defaults, now.defaults
    if fields := tuple(reaching(field, _everywhere(after, field), *sides) for field in changed_fields(*sides)):
        yield ItemChange(Sign.CHANGED, "defaults", "of the environment", now.defaults.where.line_words, fields=fields)
    yield from _classes(was.classes, now.classes, after)
    old, new = ({protection.pattern: protection.where for protection in rules.protected} for rules in (was, now))
    for pattern in sorted(old.keys() | new.keys()):
        if pattern not in old:
            yield ItemChange(Sign.ADDED, "protection", pattern, new[pattern].line_words, "nothing deletes such topics")
        elif pattern not in new:
            means = "such topics may be deleted from now on"
            yield ItemChange(Sign.REMOVED, "protection", pattern, old[pattern].line_words, means)
    yield from _audit(was.audit, now.audit)
    if fields := tuple(changed_fields(was.shrink_limit, now.shrink_limit)):
        field_changes = tuple(replace(field, means="how much may be lost at once unasked") for field in fields)
        yield ItemChange(Sign.CHANGED, "limit", "shrink_limit", fields=field_changes)
    if was.docs_url != now.docs_url:
        means = f"runbooks lead to {now.docs_url or 'no page, and are paths'}; in a running job from its next start"
        yield ItemChange(Sign.CHANGED, "setting", "docs_url", means=means)


def _audit(was: AuditTopic | None, now: AuditTopic | None) -> Iterator[ItemChange]:
    if was == now:
        return
    sign = Sign.CHANGED if was and now else Sign.ADDED if now else Sign.REMOVED
    audit_topic = now or was
    assert audit_topic is not None
    yield ItemChange(
        sign, "audit", f"topic {audit_topic.topic}", audit_topic.where.line_words, "where each run is recorded besides"
    )


def _classes(
    was: Mapping[str, TopicDefaults], now: Mapping[str, TopicDefaults], after: Topology
) -> Iterator[ItemChange]:
    for name in sorted(was.keys() | now.keys()):
        if name not in was:
            yield ItemChange(Sign.ADDED, "class", name, now[name].where.line_words, fields=tuple(whole(now[name])))
        elif name not in now:
            yield ItemChange(
                Sign.REMOVED, "class", name, was[name].where.line_words, "no topic gets its values any more"
            )
        elif fields := tuple(changed_fields(was[name], now[name])):
            count = sum(topic.class_name == name for topic in after.topics.values())
            reach = f"for the {counted(count, 'topic')} of the class"
            field_changes = tuple(reaching(field, reach, was[name], now[name]) for field in fields)
            yield ItemChange(Sign.CHANGED, "class", name, now[name].where.line_words, fields=field_changes)


def _everywhere(after: Topology, field: FieldChange) -> str:
    key = field.path.removeprefix("configs.")
    count = sum(key not in topic.configs for topic in after.topics.values())
    return f"for {counted(count, 'declared topic')} at most, and for remote topics"

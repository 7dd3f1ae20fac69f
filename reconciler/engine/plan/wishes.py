"""Wishes: configs of our own topics that a policy of the brokers may refuse; the topics are made without them."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.model.changes import AlterConfigs, CreateTopic, Role, Subject
from reconciler.model.plan import Plan
from reconciler.model.state.lock import WISHES

Modest = CreateTopic | AlterConfigs


def modest(planned: Plan, refusals: Mapping[Subject, str]) -> Mapping[str, Modest]:
    """By id, refused changes of a mirror's own topics without their wishes. One without any config left is no change
    any more."""
    return {
        each.id: replace(each.change, configs=kept)
        for each in planned.changes
        if isinstance(each.change, Modest) and each.change.role is Role.INTERNAL and each.change.subject in refusals
        if (kept := tuple(config for config in each.change.configs if config.key not in WISHES)) != each.change.configs
    }


def without_wishes(planned: Plan, accepted: Mapping[str, Modest]) -> Plan:
    """``accepted``: by id, what the brokers take instead. A change that is none any more is left out, and nothing
    waits for it."""
    gone = {id_ for id_, change in accepted.items() if isinstance(change, AlterConfigs) and not change.configs}
    changes = tuple(
        replace(
            each,
            change=accepted.get(each.id, each.change),
            needs=tuple(need for need in each.needs if need not in gone),
        )
        for each in planned.changes
        if each.id not in gone
    )
    left = {
        (each.change.subject, config.key)
        for each in planned.changes
        if each.id in accepted and isinstance(each.change, Modest)
        for config in each.change.configs
        if config not in accepted[each.id].configs
    }
    topics = sorted({str(subject) for subject, _ in left})
    keys = sorted({key for _, key in left})
    note = (
        f"a policy of the brokers refuses {', '.join(keys)} of {', '.join(topics)}: left out. These topics work without"
        " them, and are read more slowly, since they are compacted later"
    )
    return replace(planned, changes=changes, notes=(*planned.notes, note)) if left else planned

"""Wishes: configs that brokers may refuse without harm, in which case the topics are created without them.

For a mirror's own topics these are ``WISHES``. For a remote topic they are configs of its source that not every Kafka
knows: those of remote storage, of a later or an earlier release, and of a vendor.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.model import changes
from reconciler.model.config_values import IN_EVERY_RELEASE
from reconciler.model.plan import Plan
from reconciler.model.state.lock import WISHES
from reconciler.text import first_of, grouped

Modest = changes.CreateTopic | changes.AlterConfigs


def modest(planned: Plan, refusals: Mapping[changes.Subject, str]) -> Mapping[str, Modest]:
    """By id, refused changes without their wishes. Without any config left, nothing remains of the change."""
    return {
        each.id: replace(each.change, configs=kept)
        for each in planned.changes
        if isinstance(each.change, Modest) and each.change.subject in refusals
        if (kept := tuple(config for config in each.change.configs if not _wished(each.change.role, config)))
        != each.change.configs
    }


def _wished(role: changes.Role, config: changes.ConfigChange) -> bool:
    match role:
        case changes.Role.INTERNAL:
            return config.key in WISHES
        case changes.Role.REMOTE:
            return bool(config.source) and config.key not in IN_EVERY_RELEASE
        case changes.Role.DECLARED:
            return False


def without_wishes(planned: Plan, accepted: Mapping[str, Modest]) -> Plan:
    """``accepted``: by id, the form of a change that brokers accept. If nothing remains of it, it is left out, and
    nothing waits for it."""
    gone = {id_ for id_, change in accepted.items() if isinstance(change, changes.AlterConfigs) and not change.configs}
    left = tuple(
        replace(
            each,
            change=accepted.get(each.id, each.change),
            needs=tuple(need for need in each.needs if need not in gone),
        )
        for each in planned.changes
        if each.id not in gone
    )
    # Refused wishes of each change: notes for new topics, and ignored for existing copies, for which each plan asks
    # again.
    left_out = [
        (change, config)
        for each in planned.changes
        if isinstance(change := each.change, Modest) and each.id in accepted
        for config in change.configs
        if config not in accepted[each.id].configs
    ]
    return replace(
        planned,
        changes=left,
        notes=(*planned.notes, *_notes(left_out)),
        ignored=(*planned.ignored, *_ignored(left_out)),
    )


def accepted_changes(
    planned: Plan,
    wishless: Mapping[str, Modest],
    validate: Callable[[Sequence[changes.TopicChange]], Mapping[changes.Subject, str]],
) -> dict[str, Modest]:
    """By id, changes of one cluster without the wishes that its brokers refuse. ``validate``: asks the brokers; its
    errors are raised here."""
    every = {each.id: each.change for each in planned.changes}
    subjects = {change.subject for change in wishless.values()}
    beside = [
        change
        for id_, change in every.items()
        if isinstance(change, changes.TopicChange) and change.subject in subjects and id_ not in wishless
    ]

    def taken(tried: Mapping[str, Modest]) -> dict[str, Modest]:
        refused = validate([*beside, *(change for change in tried.values() if change.configs)])
        return {id_: change for id_, change in tried.items() if change.subject not in refused}

    accepted = taken(wishless)
    wished = {id_: change for id_ in accepted if isinstance(change := every[id_], Modest)}
    # One key at a time for all topics: brokers refuse a change as a whole, and some do not say because of which key.
    for key in sorted({config.key for change in wished.values() for config in change.configs}):
        tried: dict[str, Modest] = {}
        for id_, change in accepted.items():
            kept = {config.key for config in change.configs} | {key}
            configs = tuple(config for config in wished[id_].configs if config.key in kept)  # in the order of the wish
            tried[id_] = replace(change, configs=configs)
        accepted |= taken({id_: change for id_, change in tried.items() if change != accepted[id_]})
    return accepted


def _ignored(left_out: Iterable[tuple[Modest, changes.ConfigChange]]) -> Iterator[changes.Ignored]:
    """Configs of existing copies: each plan asks for them again, so none of them is news."""
    for change, config in left_out:
        if isinstance(change, changes.AlterConfigs) and change.role is changes.Role.REMOTE:
            text = f"set on {config.source}, but the brokers of {change.cluster} refuse it"
            yield changes.Ignored(changes.of_topic(change.ref, config.key), "not-known-by-target", text)


def _notes(left_out: Iterable[tuple[Modest, changes.ConfigChange]]) -> Iterator[str]:
    """Words for configs that the brokers refuse and the plan leaves out, since a topic works without them."""
    left: dict[tuple[changes.Role, str, str], dict[str, None]] = {}
    for change, config in left_out:
        if isinstance(change, changes.CreateTopic) or change.role is changes.Role.INTERNAL:
            left.setdefault((change.role, change.cluster, config.key), {})[str(change.ref)] = None
    alike = grouped(((role, cluster, tuple(sorted(refs))), key) for (role, cluster, key), refs in sorted(left.items()))
    for (role, cluster, refs), keys in alike.items():
        names, refused = first_of(refs), ", ".join(keys)
        if role is changes.Role.INTERNAL:
            yield (
                f"a policy of the brokers refuses {refused} of {names}: left out. These topics work without"
                " them, and are read more slowly, since they are compacted later"
            )
            continue
        disks = ". All records of a copy stay on the brokers' own disks" if "remote.storage.enable" in keys else ""
        yield f"the brokers of {cluster} refuse {refused}, which the source topic of {names} has: left out{disks}"

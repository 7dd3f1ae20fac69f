"""Prune: deletes unmanaged topics on a cluster's prune list, and quotas and users that git no longer declares.

Deleting a topic needs three consents: the cluster's ``prune`` list in git, ``plan --prune``, and ``apply --prune``. For
quotas and users the ownership record replaces the list.
"""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.changes import About, DeleteTopic, Ignored, Reason, Refused, Subject, Unmanaged, Why, of_topic
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Findings
from reconciler.replication.expressions.match import expressions
from reconciler.replication.names import is_reserved
from reconciler.resources.protected_names import is_state_of_an_application, protection_of
from reconciler.resources.shrink_limit import AGREE, too_many
from reconciler.text import counted, first_of, grouped


def prune(topology: Topology, live: LiveState, unmanaged: tuple[Unmanaged, ...], asked: bool) -> Findings:
    """``asked``: --prune was given; otherwise a note lists what it would delete.

    Nothing is pruned on a cluster that hides topics, because the remote topic of a hidden source looks left over.
    """
    deletions, ignored = _candidates(topology, live, unmanaged)
    going = grouped((deletion.ref.cluster, deletion.ref.name) for deletion in deletions)
    if not asked:
        notes = tuple(
            f"plan --prune would delete {counted(len(names), 'unmanaged topic')} of {cluster}: {first_of(names)}"
            for cluster, names in sorted(going.items())
        )
        return Findings(unmanaged=unmanaged, ignored=ignored, notes=notes)
    gone = {deletion.ref for deletion in deletions}
    kept = tuple(topic for topic in unmanaged if topic.ref not in gone)
    refused = tuple(_refusals(topology, live, going)) if deletions else ()
    return Findings(changes=tuple(deletions), refused=refused, unmanaged=kept, ignored=ignored)


def too_many_pruned(topology: Topology, problem: str, gone: Sequence[str], before: int) -> Iterator[Refused]:
    """``problem``: such as ``users of east``; ``before``: number of those that earlier runs made."""
    limit = topology.rules.shrink_limit
    if too_many(gone, before, limit, left=before - len(gone)):
        why = f"{len(gone)} of {before} {problem} would be pruned, more than {limit.percent} %: {first_of(gone)}"
        todo = f"Check whether a file is missing or empty. If it is intended, {AGREE}"
        yield Refused(Subject(About.PRUNE, name=f"of {problem}"), Reason(Why.PRUNE_ABOVE_LIMIT, why), todo)


def _candidates(
    topology: Topology, live: LiveState, unmanaged: Sequence[Unmanaged]
) -> tuple[list[DeleteTopic], tuple[Ignored, ...]]:
    """Unmanaged topics in the prune list, without protected ones and application state, which are reported, since the
    list names them."""
    deletions, ignored = [], []
    for each in unmanaged:
        desired, cluster = topology.clusters[each.ref.cluster], live.known(each.ref.cluster)
        pattern = expressions(desired.prune_topics).first(each.ref.name)
        if pattern is None or cluster is None:
            continue
        topic, place = cluster.topics[each.ref.name], f"{desired.where.file}:{desired.where.line}"
        # Protection wins over the prune list: an expression that is too wide must not delete what another file keeps.
        if rule := protection_of(each.ref.name, topology.rules.protected):
            text = f"'{pattern}' of the prune list ({place}) names it, {rule} keeps it"
            ignored.append(Ignored(of_topic(each.ref), "protected", text))
        elif topic.internal or is_state_of_an_application(each.ref.name):
            text = "Kafka Streams keeps the state of an application in it; only a tombstone deletes it"
            ignored.append(Ignored(of_topic(each.ref), "protected", text))
        else:
            text = f"nothing asks for it, and '{pattern}' of the prune list of {desired.name} ({place}) owns its name"
            reason = Reason(Why.PRUNE, text)
            deletions.append(DeleteTopic(each.ref, topic.topic_id, each.partitions, "", reason))
    return deletions, tuple(ignored)


def _refusals(topology: Topology, live: LiveState, going: Mapping[str, Sequence[str]]) -> Iterator[Refused]:
    """``going``: cluster -> topics to prune."""
    # A cluster that hides topics may hide the source of a remote topic on any other cluster.
    count = sum(map(len, going.values()))
    for name in sorted(live.clusters):
        known = live.known(name)  # an unknown cluster stops all removals anyway
        if known is not None and not known.sees_all:
            problem = f"{count} topics would be pruned, but cluster {name} does not show this principal every topic"
            why = f"{problem}; the remote topic of an unseen source looks as if nothing needed it"
            todo = "Let the principal describe every topic (doctor prints the command), or leave --prune out"
            yield Refused(Subject(About.PRUNE, name=f"with {name}"), Reason(Why.PRUNE_BLIND, why), todo)
    # Kafka's own topics are never pruned, so they do not count towards the share.
    limit = topology.rules.shrink_limit
    for name, names in sorted(going.items()):
        cluster = live.known(name)
        topics = [topic for topic in cluster.topics if not is_reserved(topic)] if cluster else []
        if too_many(names, len(topics), limit, left=len(topics) - len(names)):
            problem = f"{len(names)} of {len(topics)} topics of {name} would be pruned, more than {limit.percent} %"
            todo = f"Check whether a file or flow is missing. If it is intended, {AGREE}"
            subject = Subject(About.PRUNE, name=f"of {name}")
            yield Refused.of(subject, Why.PRUNE_ABOVE_LIMIT, f"{problem}: {first_of(names)}", todo)

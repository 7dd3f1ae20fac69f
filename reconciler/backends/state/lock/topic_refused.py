"""The topic of the environment's lock, tried before an apply has to make it: a cluster's policy may refuse its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.backends.clusters.topics.write import NOT_LISTED
from reconciler.errors import ClusterError
from reconciler.model.changes import ConfigChange, CreateTopic, Reason, Role, Subject, Why
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.ports import ClusterReader
from reconciler.model.state.lock import LOCK_TOPIC, lock_topic_configs, lock_topic_factors


def lock_topic_refused(
    clusters: Mapping[str, ClusterReader], live: LiveState, home: str, made: Plan
) -> Mapping[Subject, str]:
    """What the brokers have against it, where ``made`` changes something and the topic is not there. A principal that
    may not ask learns nothing here."""
    here = live.known(home) if home else None
    if here is None or LOCK_TOPIC in here.topics or not made.changes:
        return {}
    refusals: Mapping[Subject, str] = {}
    for change in _as_made(home, len(here.brokers)):
        try:
            refusals = clusters[home].validate([change])
        except ClusterError:
            return {}
        if not refusals or NOT_LISTED in refusals.values():
            return {}
    return refusals


def _as_made(cluster: str, brokers: int) -> Iterator[CreateTopic]:
    """One of these is made, tried in turn."""
    reason = Reason(Why.DECLARED, "apply keeps the lock of the environment there")
    for factor in lock_topic_factors(brokers):
        configs = tuple(ConfigChange(key, None, "", value, "") for key, value in lock_topic_configs(factor).items())
        yield CreateTopic(TopicRef(cluster, LOCK_TOPIC), 1, factor, configs, Role.INTERNAL, reason)

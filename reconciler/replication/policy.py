"""The replication policy: the name of a remote topic, and which topics may be mirrored (MirrorMaker 2's rules).

Rules of Kafka 4.0+ (KIP-1074) for internal topics; ``BEFORE_4`` has the policies of those before. The cycle rule is
that of MirrorSourceConnector.isCycle up to 4.3: a hop that equals the target's alias
([decision 180](../../docs/decisions/mirrormaker/0180-only-the-targets-alias-is-a-cycle.md)).
"""

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from reconciler.replication.allowed import POLICY_GROUP, VARIABLE, policy_permitted
from reconciler.replication.expressions.match import Expressions, expressions
from reconciler.replication.names import is_own_topic

HEARTBEATS = "heartbeats"
NO_MATCH, EXCLUDED, INTERNAL = "no pattern matches", "excluded", "internal"
CYCLE = "cycle"
"""Result of ``TopicSelector.why_not`` for names with the target's alias as a hop."""
# DefaultTopicFilter, topics.exclude (MirrorMaker 2, 4.0+)
EXCLUDED_TOPICS = (r"mm2.*\.internal", r".*\.replica", r"__.*")


@runtime_checkable
class ReplicationPolicy(Protocol):
    """The contract of ``org.apache.kafka.connect.mirror.ReplicationPolicy``, in Python's names."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str: ...

    def topic_source(self, topic: str) -> str | None: ...

    def upstream_topic(self, topic: str) -> str | None: ...

    def is_internal_topic(self, topic: str) -> bool: ...


def is_checkpoints_topic(topic: str, separator: str = ".") -> bool:
    """``ReplicationPolicy.isCheckpointsTopic``."""
    return topic.endswith(f"{separator}checkpoints{separator}internal")


def is_mm2_internal_topic(topic: str, separator: str = ".") -> bool:
    """``ReplicationPolicy.isMM2InternalTopic`` of Kafka 4.0 and newer (KIP-1074)."""
    return (topic.startswith("mm2") and topic.endswith(f"{separator}internal")) or is_checkpoints_topic(
        topic, separator
    )


def _internal(topic: str, separator: str) -> bool:
    return topic.startswith(("__", ".")) or is_mm2_internal_topic(topic, separator)


def _internal_to_39(topic: str, separator: str) -> bool:
    return topic.startswith(("__", ".")) or topic.endswith((f"{separator}internal", "-internal", ".internal"))


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """Kafka's DefaultReplicationPolicy, but for one thing: there a name such as ``east.--`` with nothing but separators
    behind the first one has no source, so the cycle rule would let its records return. Here its source is ``east``."""

    separator: str = "."
    internal_separator: str | None = field(default=None, kw_only=True)
    """In names of MirrorMaker 2's internal topics (KIP-949); None: ``separator``."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        head, text, _ = topic.partition(self.separator)
        return head if text else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def is_internal_topic(self, topic: str) -> bool:
        return _internal(topic, self.internal_separator or self.separator)


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy:
    """Names stay, but heartbeats topics are prefixed, as in Kafka's IdentityReplicationPolicy."""

    source_alias: str
    separator: str = "."
    internal_separator: str | None = field(default=None, kw_only=True)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}" if self._heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        if self._heartbeats(topic):
            return DefaultReplicationPolicy(self.separator).topic_source(topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return DefaultReplicationPolicy(self.separator).upstream_topic(topic) if self._heartbeats(topic) else topic

    def is_internal_topic(self, topic: str) -> bool:
        return _internal(topic, self.internal_separator or self.separator)

    @staticmethod
    def _heartbeats(topic: str) -> bool:
        return topic.endswith("heartbeats")


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicyTo39(DefaultReplicationPolicy):
    """The policy of Kafka 2.4 to 3.9: every topic with suffix ``-internal`` or ``.internal`` is internal."""

    source_alias: str = ""

    def is_internal_topic(self, topic: str) -> bool:
        return _internal_to_39(topic, self.internal_separator or self.separator)


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicyTo39(IdentityReplicationPolicy):
    """Identity names with the internal topics of Kafka 3.0 to 3.9."""

    def is_internal_topic(self, topic: str) -> bool:
        return _internal_to_39(topic, self.internal_separator or self.separator)


_MODULE_OF_OLD_NAMES = "replication.policy"
"""Former name of this module, which environments and hand-overs of running jobs contain."""

BEFORE_4 = {
    "default-before-4.0": f"{_MODULE_OF_OLD_NAMES}:{DefaultReplicationPolicyTo39.__name__}",
    "identity-before-4.0": f"{_MODULE_OF_OLD_NAMES}:{IdentityReplicationPolicyTo39.__name__}",
}
"""Naming policies with the internal topics of Kafka before 4.0, by their words: as the hand-over spells them."""


def canonical_policy(policy: str) -> str:
    """``policy`` as spelled in hand-overs. Jobs of earlier releases know only the path for ``BEFORE_4``, and the word
    must not change fingerprints."""
    return BEFORE_4.get(policy, policy)


def policy_word(policy: str) -> str:
    """``policy`` as users write it: the inverse of ``canonical_policy``."""
    return next((word for word, canonical in BEFORE_4.items() if canonical == policy), policy)


def make_policy(policy: str, separator: str, source_alias: str, *, trusted: bool = False) -> ReplicationPolicy:
    """``default``, ``identity``, a word of ``BEFORE_4``, or ``package.module:Class``, whose class is called with
    separator and source_alias.

    To import a module is to run it, so only classes are that an installed package declares as its entry point or that
    ``RECONCILER_ALLOW`` lists. ``trusted``: of a hand-over, before which that was asked.
    Raises ValueError with what is wrong when a class is not allowed, cannot be imported or breaks the contract.
    """
    if policy == "default":
        return DefaultReplicationPolicy(separator)
    if policy == "identity":
        return IdentityReplicationPolicy(source_alias, separator)
    module, text, name = canonical_policy(policy).partition(":")
    if not text:
        known = ", ".join(("default", "identity", *BEFORE_4))
        raise ValueError(f"naming policy {policy!r} is neither one of {known} nor package.module:Class")
    if module == _MODULE_OF_OLD_NAMES:
        module = __name__
    elif not trusted and not policy_permitted(policy):
        raise ValueError(
            f"naming policy {policy!r} is not imported, because nothing outside the topology allows it. Set"
            f" {VARIABLE}=policy:{policy} where this program runs, or declare it as an entry point {POLICY_GROUP}"
        )
    try:
        naming = getattr(importlib.import_module(module), name)(separator=separator, source_alias=source_alias)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code: anything may come out of it, SystemExit too
        raise ValueError(f"naming policy {policy!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(naming, ReplicationPolicy):
        raise ValueError(f"naming policy {policy!r} lacks methods of ReplicationPolicy")
    return naming


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether the name shows that records of ``topic`` have been on the target. Identity names do not show it.

    The source's own alias proves nothing: no flow copies ``prod.orders`` from prod to prod, so on prod an application
    chose that name.
    """
    if isinstance(policy, IdentityReplicationPolicy) and not topic.endswith("heartbeats"):
        return False
    # A custom policy could name a topic as its own origin, so each name is checked once.
    seen: set[str] = set()
    current: str | None = topic
    while current is not None and current not in seen:
        seen.add(current)
        hop = policy.topic_source(current)
        if hop is None:
            return False
        if hop == target_alias:
            return True
        current = policy.upstream_topic(current)
    return False


def original_topic(policy: ReplicationPolicy, topic: str) -> str:
    """``ReplicationPolicy.originalTopic``: the name on the cluster it began on, all hops taken away."""
    seen = {topic}
    while (upstream := policy.upstream_topic(topic)) is not None and upstream not in seen:
        seen.add(upstream)
        topic = upstream
    return topic


def is_heartbeats(policy: ReplicationPolicy, topic: str) -> bool:
    """``ReplicationPolicy.isHeartbeatsTopic``: ``heartbeats``, or one that was mirrored from there."""
    return original_topic(policy, topic) == HEARTBEATS


def heartbeats_expression(separator: str) -> str:
    """An expression for all names of heartbeats topics."""
    return rf"(.*{re.escape(separator)})?{HEARTBEATS}"


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Selects topics of a flow's source, and their remote names."""

    include: Expressions
    """Expressions match whole names; ``exclude`` wins."""
    exclude: Expressions
    policy: ReplicationPolicy
    """The rule for names of copies."""
    source_alias: str
    target_alias: str
    heartbeats: bool = False
    """Heartbeats topics travel whatever the expressions say (heartbeats.replication.enabled, KIP-1089)."""

    def why_not(self, topic: str) -> str | None:
        """None if the flow carries the topic, else the rule against it, as a word for plans."""
        if not (self.heartbeats and is_heartbeats(self.policy, topic)):
            if not self.include.match(topic):
                return NO_MATCH
            if self.exclude.match(topic):
                return EXCLUDED
        if self.policy.is_internal_topic(topic) or is_own_topic(topic):
            return INTERNAL
        if is_cycle(self.policy, topic, self.target_alias):
            return CYCLE
        return None

    def remote_name(self, topic: str) -> str:
        return self.policy.format_remote_topic(self.source_alias, topic)


def make_selector(
    topics: Sequence[str],
    exclude_topics: Sequence[str],
    policy: str,
    separator: str,
    source_alias: str,
    target_alias: str,
    *,
    heartbeats: bool = False,
    internal_separator: str | None = None,
    trusted: bool = False,
) -> TopicSelector:
    """Raises ExpressionError, a ValueError, and ValueError for a bad policy. An empty include list matches nothing.
    ``internal_separator``: as of ``DefaultReplicationPolicy``; ``trusted``: as of ``make_policy``."""
    naming = make_policy(policy, separator, source_alias, trusted=trusted)
    if isinstance(naming, DefaultReplicationPolicy | IdentityReplicationPolicy):
        naming = replace(naming, internal_separator=internal_separator)
    return TopicSelector(
        expressions(topics),
        expressions((*EXCLUDED_TOPICS, *exclude_topics)),
        naming,
        source_alias,
        target_alias,
        heartbeats,
    )

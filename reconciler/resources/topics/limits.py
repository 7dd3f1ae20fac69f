"""Limits of a topic: configs that delete, compact or refuse records earlier if they are lowered.

A copy does not take over a limit that no file declares until someone agrees (decision 109). The values that a copy has
from its own brokers are compared with those of its source (decision 181).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.config_values import LONG_MAX, human, number
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import ConfigValue, Source
from reconciler.text import counted, first_of, grouped

_LOWER: Mapping[str, str] = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(LONG_MAX),
    "max.message.bytes": "1048588",
    "max.decompressed.message.bytes": "2147483639",
    "message.timestamp.difference.max.ms": str(LONG_MAX),
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": "3600000",
}
"""With Kafka's built-in values (4.4), for clusters on which no topic shows the default."""
_HIGHER: Mapping[str, str] = {"min.insync.replicas": "1"}
_OTHERS: Mapping[str, str] = {"cleanup.policy": "delete", "unclean.leader.election.enable": "false"}
BUILT_IN: Mapping[str, str] = {**_LOWER, **_HIGHER, **_OTHERS}
DELETES = ("retention.ms", "retention.bytes")
COMPACTS = ("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms", "segment.bytes")
REFUSES = ("max.message.bytes", "max.decompressed.message.bytes", "message.timestamp.after.max.ms")
AGES = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""The greatest age of a record when it is written: the source accepted it long ago, and the copy is written now."""
POLICY, TIMESTAMPS = "cleanup.policy", "message.timestamp.type"
_UNKNOWN_THERE = ConfigValue(None, Source.BUILT_IN)
"""For brokers of another release, and for a cluster on which no topic shows the default."""


@dataclass(frozen=True, slots=True)
class KeptLess:
    """A setting by which a copy keeps or accepts less than its source."""

    source: TopicRef
    remote: TopicRef
    key: str
    here: ConfigValue
    """The source's value."""
    there: ConfigValue
    loses: bool
    """The copy deletes or compacts records earlier; otherwise it refuses or changes them."""

    @property
    def words(self) -> str:
        there, here = (f"{human(self.key, one.value)} ({one.source.value})" for one in (self.there, self.here))
        return f"{self.key} is {there} on {self.remote.cluster}, {here} on {self.source.cluster}: {self._effect}"

    @property
    def _effect(self) -> str:
        """The effect of the copy's smaller limit on records."""
        if self.loses:
            return "the copy loses what the source keeps"
        if self.key == TIMESTAMPS:
            return "the copy's records get the time of copying, and are kept by it"
        if self.key in AGES:
            return "a record that is older when it is copied is refused, and its partition stops"
        return "a record that the source takes is refused, and its partition stops"

    @property
    def here_is_enough(self) -> bool:
        """Whether the copy would be as the source with the source's own value. Of an age that is so only without a
        limit: records grow older until they are copied."""
        return self.key not in AGES or (number(self.here.value) or 0) >= LONG_MAX

    @property
    def written(self) -> str:
        """The line of YAML by which the copy is like the source."""
        return f"{self.key}: {LONG_MAX if self.key in AGES else self.here.value}"


def kept_less(
    source: TopicRef, remote: TopicRef, here: Mapping[str, ConfigValue], there: Mapping[str, ConfigValue]
) -> Iterator[KeptLess]:
    """``here``, ``there``: all planned configs of source and copy. A value that a file gives the copy is intended."""
    # A limit of retention says nothing about a compacted topic, and one of compaction nothing about a deleted log.
    policy = _value(there, POLICY).split(",")
    deletes, compacts = "delete" in policy, "compact" in policy
    keys = (POLICY, *(DELETES if deletes else ()), *(COMPACTS if compacts else ()), *REFUSES, *AGES, TIMESTAMPS)
    for key in keys:
        one, other = here.get(key, _UNKNOWN_THERE), there.get(key, _UNKNOWN_THERE)
        # An unread value proves nothing either way.
        if other.value is None or (other.source is Source.TOPIC and other.declared):
            continue
        if key in AGES:
            less = _refuses_old(here, other)
        elif one.value is None:
            continue
        elif key == TIMESTAMPS:
            less = one.value != other.value == "LogAppendTime"
        elif key.startswith("segment."):
            less = (number(other.value) or 0) < (number(one.value) or 0)
        else:
            less = loses_earlier(key, one.value, other.value)
        if less:
            loses = key not in (*REFUSES, *AGES, TIMESTAMPS)
            yield KeptLess(source, remote, key, one, other, loses)


def kept_less_words(copies: Iterable[KeptLess]) -> Iterator[tuple[str, str]]:
    """For all copies with the same finding: its words, and what to write."""
    for (words, written), some in grouped(((each.words, each.written), each) for each in copies).items():
        names = first_of([str(each.remote) for each in some])
        yield f"{counted(len(some), 'copy', 'copies')} ({names}): {words}", todo([written], some)


def todo(written: Sequence[str], some: Sequence[KeptLess]) -> str:
    clusters = ", ".join(sorted({each.remote.cluster for each in some}))
    taken_over = "sync_topic_configs: {use_defaults_from: source} takes all such values over; "
    return (
        f"Write {', '.join(written)} under defaults.configs of cluster {clusters}, or under topics for one copy; "
        f"{taken_over if any(each.here_is_enough for each in some) else ''}a value of your own for the copy "
        "says that it is meant to be another"
    )


def _value(configs: Mapping[str, ConfigValue], key: str) -> str:
    entry = configs.get(key)
    return "".join((entry.value or "").split()) if entry is not None else ""


def _refuses_old(here: Mapping[str, ConfigValue], there: ConfigValue) -> bool:
    """Whether the source may have records that are too old for the copy."""
    limit = number(there.value)
    if limit is None or limit >= LONG_MAX:
        return False
    retention = number(_value(here, DELETES[0])) if "delete" in _value(here, POLICY) else float("inf")
    return retention is None or limit < retention


def loses_earlier(key: str, before: str | None, after: str | None) -> bool:
    """Whether ``after`` loses or refuses records that ``before`` keeps or takes. None, or a value that is not a number,
    is unknown, which counts as losing if ``key`` is a limit at all."""
    if key not in BUILT_IN:
        return False
    if before is None or after is None:
        return True
    if key == "cleanup.policy":
        return bool(_policies(after) - _policies(before))
    if key == "unclean.leader.election.enable":
        return after.strip().lower() == "true" and before.strip().lower() != "true"
    was, now = number(before), number(after)
    if was is None or now is None:
        return before.strip() != after.strip()
    return now > was if key in _HIGHER else now < was


def _policies(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def min_insync_above(factor: int) -> str:
    """The consequence of min.insync.replicas above the replication factor. Kafka 4.3 accepts acks=all with one replica
    although three must be in sync; brokers before 3.7 (KAFKA-15583) refuse it."""
    return (
        f"Brokers before Kafka 3.7 refuse every write with acks=all there; later ones count it as {factor}, so it"
        " protects less than it says"
    )

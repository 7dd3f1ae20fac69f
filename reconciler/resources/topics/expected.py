"""Topics as they will be after the plan, from which routing works out the next hop, with topic config sync."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.errors import Unknown
from reconciler.model.config_values import THROTTLES, TIERED_STORAGE, human, number
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import Topic, TopicRef, Undeclared
from reconciler.model.live import BrokerConfigs, ConfigValue, Source
from reconciler.replication.expressions.match import expressions
from reconciler.resources.topics.defaults import Layers, configs, partitions, retention_steps, undeclared
from reconciler.resources.topics.limits import BUILT_IN

Configs = Mapping[str, ConfigValue] | Unknown
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class DesiredConfig:
    """A desired config value and its origin, in the words of a plan."""

    value: str
    origin: str
    goal: str | None = None
    """The final value, if ``value`` is only a step on the way."""
    hold: str = ""
    """Why it cannot be set."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """A topic as the plan would leave it."""

    partitions: int | None
    """None: no file gives a count, so the broker decides when it creates the topic."""
    configs: Configs
    unseen: Unknown | None = None
    """Why existence and settings of the topic are unknown; git may be wrong about them."""
    declared: bool = False
    """Git declares the topic, or the source of this copy."""

    def at_least(self, partitions: int | None) -> Prospect:
        if self.partitions is None or partitions is None:
            return replace(self, partitions=self.partitions or partitions)
        return replace(self, partitions=max(self.partitions, partitions))


def prospect_of_declared(prospect: Prospect | None, desired: Topic, layers: Layers, brokers: BrokerConfigs) -> Prospect:
    """A declared topic: its declaration over the live values, or over the brokers' values if it does not exist yet."""
    base = prospect or Prospect(None, brokers)
    count = desired.partitions or (None if prospect else partitions(layers))
    wanted = wanted_configs(layers, prospect.configs if prospect else None)
    kept = base.configs
    if not isinstance(kept, Unknown):
        kept = without_undeclared(kept, layers, brokers)
    return replace(base.at_least(count), configs=overlaid(kept, wanted), declared=True)


def overlaid(config_values: Configs, wanted: Mapping[str, DesiredConfig], in_no_file: Collection[str] = ()) -> Configs:
    """``in_no_file``: keys of ``wanted`` that no file declares."""
    if isinstance(config_values, Unknown):
        return config_values
    there = {
        key: ConfigValue(desired.value, Source.TOPIC, goal=desired.goal, declared=key not in in_no_file)
        for key, desired in wanted.items()
        if not desired.hold
    }
    return {**config_values, **there}


def without_undeclared(
    config_values: Mapping[str, ConfigValue], layers: Layers, brokers: BrokerConfigs
) -> Mapping[str, ConfigValue]:
    """The configs without overrides that no file declares, if ``undeclared`` is remove."""
    if undeclared(layers) is not Undeclared.REMOVE:
        return config_values
    return {
        key: replace(brokers.get(key, replace(config, source=Source.BUILT_IN)), declared=True)
        if config.source is Source.TOPIC and not config.declared and key not in THROTTLES
        else config
        for key, config in config_values.items()
    }


def declared_over(remote: Configs, declared: Prospect, layers: Layers) -> Configs:
    """Configs of a remote topic that git declares, too: values from git win, as ``declared`` has them."""
    if isinstance(remote, Unknown) or isinstance(declared.configs, Unknown):
        return remote
    return {**remote, **{key: declared.configs[key] for key in configs(layers) if key in declared.configs}}


def wanted_configs(layers: Layers, live: Configs | None) -> dict[str, DesiredConfig]:
    """The values that the layers declare. ``live``: the topic's present configs, None if it is missing. A retention
    that git lowers in steps is one step below its present value."""
    desired_configs = {
        key: DesiredConfig(layer_value.value, layer_value.layer.name) for key, layer_value in configs(layers).items()
    }
    if live is None or isinstance(live, Unknown):
        return desired_configs
    for key, by in retention_steps(layers).items():
        if key in desired_configs and key in live:
            desired_configs[key] = lowered(key, live[key].value, desired_configs[key], by)
    return desired_configs


def lowered(key: str, now: str | None, desired: DesiredConfig, by: int) -> DesiredConfig:
    """``desired``, or the first step towards it if it is more than ``by`` below ``now``."""
    before, after = number(now), number(desired.value)
    if before is None or after is None or after >= before:
        return desired
    if before == float("inf"):
        hold = f"{key} is unlimited now, and steps of {human(key, str(by))} need a value to begin from"
        return replace(desired, hold=hold)
    if before - after <= by:
        return desired
    steps = -(-int(before - after) // by)
    origin = f"{desired.origin}, 1 of {steps} steps to {human(key, desired.value)}, one an apply"
    return replace(desired, value=str(int(before) - by), origin=origin, goal=desired.value)


class ByCluster(Mapping[TopicRef, Value]):
    """Values by topic whose names are known by cluster."""

    def __init__(self, named: Mapping[str, Collection[str]]) -> None:
        self._named = named

    def names(self, cluster: str) -> Collection[str]:
        return self._named.get(cluster, ())

    def __iter__(self) -> Iterator[TopicRef]:
        return (TopicRef(cluster, name) for cluster, names in self._named.items() for name in names)

    def __len__(self) -> int:
        return sum(map(len, self._named.values()))

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, TopicRef) and ref.name in self.names(ref.cluster)


class Prospects(ByCluster[Prospect]):
    """Prospects by topic, each worked out on first use: most topics do not travel, and are never needed."""

    def __init__(self, present: Mapping[str, set[str]], work_out: Callable[[TopicRef], Prospect]) -> None:
        """``present``: names by cluster; ``put`` adds to it."""
        super().__init__(present)
        self._present = present
        self._work_out = work_out
        self._found: dict[TopicRef, Prospect] = {}

    def __getitem__(self, ref: TopicRef) -> Prospect:
        prospect = self._found.get(ref)
        if prospect is None:
            if ref not in self:
                raise KeyError(ref)
            prospect = self._found[ref] = self._work_out(ref)
        return prospect

    def put(self, ref: TopicRef, prospect: Prospect) -> None:
        """For routing alone, which adds remote topics before it hands this mapping out."""
        self._found[ref] = prospect
        self._present[ref.cluster].add(ref.name)


# Topic config sync (MirrorMaker 2's): which configs of a source topic its remote topic on the target must have.
# Rules of MirrorSourceConnector and DefaultConfigPropertyFilter (KIP-382, KIP-894): read-only, sensitive and excluded
# entries never travel; an entry at its default on the source removes the override on the target, or is written out when
# `use_defaults_from` is `source`; dynamic broker values become explicit overrides. Values from `server.properties`
# travel with `use_defaults_from: source` alone: MirrorMaker 2 leaves them behind then, too. Not MirrorMaker 2's: what
# only some brokers know is left out where the target's refuse it (`engine.plan.wishes`).


@dataclass(frozen=True, slots=True)
class SyncedConfigs:
    """What config sync asks of one remote topic."""

    set: Mapping[str, DesiredConfig]
    """Values for the remote topic."""
    reset: frozenset[str] = frozenset()
    """Keys whose override on the remote topic is removed."""
    in_no_file: frozenset[str] = frozenset()
    """The limits among both (``limits.BUILT_IN``) that no file declares for the source."""
    led: bool = True
    """False: the flow does not sync configs, so nothing says which overrides the remote topic should have."""


def synced_configs(
    sync: ConfigSync, source: TopicRef, configs: Mapping[str, ConfigValue] | Unknown, target: Layers
) -> SyncedConfigs | Unknown:
    """``target``: the layers of the target cluster; they count where config sync brings no value."""
    defaults = wanted_configs(target, None)
    if not sync.enabled:
        return SyncedConfigs(defaults, led=False)
    if isinstance(configs, Unknown):
        return configs
    excluded = expressions(sync.exclude)
    wanted: dict[str, DesiredConfig] = {}
    reset: set[str] = set()
    for key, entry in configs.items():
        if entry.read_only or entry.sensitive or entry.value is None:
            continue
        if entry.source is Source.STATIC and sync.use_defaults_from != "source":
            continue
        if key in THROTTLES or excluded.match(key):
            continue
        if entry.source is Source.TOPIC:
            step = f", a step to {human(key, entry.goal)}" if entry.goal is not None else ""
            wanted[key] = DesiredConfig(entry.value, f"source {source}{step}", entry.goal)
        elif entry.source is not Source.BUILT_IN or sync.use_defaults_from == "source":
            wanted[key] = DesiredConfig(entry.value, f"source {source}, {entry.source.value}")
        elif key not in TIERED_STORAGE:  # the target may have remote storage even if the source has none
            reset.add(key)
    reset -= defaults.keys()
    in_no_file: list[str] = []
    for key in () if sync.carry_undeclared_limits else BUILT_IN:
        if key in reset or key in wanted:
            entry = configs[key]
            # With use_defaults_from: source, git asks for whatever the source's brokers have as defaults.
            given = entry.source in (Source.BUILT_IN, Source.STATIC)
            asked_for = given and sync.use_defaults_from == "source"
            if not (entry.declared or asked_for):
                in_no_file.append(key)
    return SyncedConfigs(defaults | wanted, frozenset(reset), frozenset(in_no_file))


def prospect_of_remote(
    prospect: Prospect | None,
    partitions: int | None,
    wanted: SyncedConfigs | Unknown,
    target: Layers,
    brokers: BrokerConfigs,
) -> Prospect:
    """A remote topic after its route is carried out. ``target``, ``brokers``: layers and broker values of its
    cluster."""
    base = (prospect or Prospect(None, brokers)).at_least(partitions)
    if isinstance(wanted, Unknown) or isinstance(base.configs, Unknown):
        return replace(base, configs=wanted if isinstance(wanted, Unknown) else base.configs)
    kept = without_undeclared(base.configs, target, brokers) if wanted.led else base.configs
    configs = {k: v for k, v in kept.items() if k not in wanted.reset or v.source is not Source.TOPIC}
    configs |= {key: brokers[key] for key in wanted.reset if key in brokers}
    for key in (wanted.reset & BUILT_IN.keys()) - wanted.in_no_file:
        if key in configs:
            configs[key] = replace(configs[key], declared=True)
    return replace(base, configs=overlaid(configs, wanted.set, wanted.in_no_file))

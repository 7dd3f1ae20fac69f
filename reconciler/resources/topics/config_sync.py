"""Topic config sync (MirrorMaker 2's): which configs of a source topic its remote topic on the target must have.

Rules of MirrorSourceConnector and DefaultConfigPropertyFilter (KIP-382, KIP-894): read-only, sensitive and excluded
entries never travel; an entry at its default on the source removes the override on the target, or is written out when
``use_defaults_from`` is ``source``; dynamic broker values become explicit overrides. Values from ``server.properties``
travel with ``use_defaults_from: source`` alone: MirrorMaker 2 leaves them behind then, too. Not MirrorMaker 2's: what
only some brokers know is left out where the target's refuse it (``engine.plan.wishes``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.model.config_values import THROTTLES, TIERED_STORAGE, human
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import BrokerConfigs, ConfigValue, Source
from reconciler.replication.expressions.match import expressions
from reconciler.resources.topics.defaults import Layers
from reconciler.resources.topics.expected import DesiredConfig, Prospect, overlaid, wanted_configs, without_undeclared
from reconciler.resources.topics.limits import BUILT_IN


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

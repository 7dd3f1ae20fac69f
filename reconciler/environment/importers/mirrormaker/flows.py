"""A flow of MirrorMaker 2 as YAML of a flow here, with MirrorMaker 2's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.environment.importers.mirrormaker.expressions import expressions
from reconciler.environment.importers.mirrormaker.naming import ALIAS, CLASS, KAFKA, SEPARATOR, RemoteNames
from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Configuration, Flow, Notes, words

FILTERS = {
    "topic.filter.class": ("DefaultTopicFilter", "topics and exclude_topics of the flow"),
    "group.filter.class": ("DefaultGroupFilter", "groups: {include, exclude} of the flow"),
    "config.property.filter.class": ("DefaultConfigPropertyFilter", "sync_topic_configs.exclude of the flow"),
}
"""The usual class of each, and what takes the place of another one."""
OF_FLOW = frozenset({
    "enabled", "topics", "topics.exclude", "topics.blacklist", "groups", "groups.exclude", "groups.blacklist",
    "config.properties.exclude", "config.properties.blacklist", "replication.factor", "replication.policy.class",
    "replication.policy.separator", "replication.policy.internal.topic.separator.enabled", "sync.topic.configs.enabled",
    "sync.topic.acls.enabled", "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds", "use.defaults.from",
    "emit.heartbeats.enabled", "emit.heartbeats.interval.seconds", "heartbeats.replication.enabled",
    "emit.offset-syncs.enabled", "offset-syncs.topic.location", "tasks.max", ALIAS, *FILTERS,
})  # fmt: skip
OF_CONSUMER = ("auto.offset.reset", "isolation.level")
_ALWAYS_EXCLUDED = (r"mm2.*\.internal", r".*\.replica", "__.*")
_MOST_LANES = 64
_DEFAULT = "MirrorMaker 2's default"


@dataclass(frozen=True, slots=True)
class Field:
    """``path`` inside the flow, such as (``groups``, ``interval``); ``origin``: a property, or words."""

    path: tuple[str, ...]
    value: str | bool | int | tuple[str, ...]
    origin: Property | str


@dataclass(slots=True)
class FlowReading:
    flow: Flow
    config: Configuration
    notes: Notes

    @property
    def name(self) -> str:
        return f"{self.flow[0]}->{self.flow[1]}"

    def enabled(self) -> bool:
        """Only with the flow's own prefix, or for everybody; false when left out."""
        return self._flag("enabled", default=False) and not self.never_started

    @property
    def never_started(self) -> bool:
        """Enabled for all clusters, where nothing starts it: MirrorMaker 2 starts a pair by its own ``enabled`` or by
        its heartbeats (MirrorMakerConfig.clusterPairs)."""
        own = "enabled" in self.config.of_flow.get(self.flow, {})
        enabled = not own and self._flag("enabled", default=False)
        return enabled and not self._flag("emit.heartbeats.enabled", default=True)

    @property
    def alias(self) -> str:
        """The source's name in MirrorMaker 2's own records: stored positions, checkpoints."""
        prop = self.config.of_connector(self.flow, ALIAS)
        return prop.value.strip() if prop is not None else self.flow[0]

    def fields(self) -> tuple[Field, ...]:
        self._refuse_classes()
        return (*self._records(), *self._kept_equal(), *self._consumers(), *self._own_topics())

    def _differs(self, words: str, of: Property | None = None) -> None:
        self.notes.differs(words, self.name, of)

    def _get(self, *names: str) -> Property | None:
        return self._looked_at(self.config.of_connector(self.flow, *names))

    def _looked_at(self, prop: Property | None) -> Property | None:
        if prop is not None:
            self.notes.looked_at.add(prop)
        return prop

    def _flag(self, name: str, *, default: bool) -> bool:
        prop = self._get(name)
        text = prop.value.strip().lower() if prop else ""
        if prop is None or text in ("true", "false"):
            return text == "true" if prop else default
        self.notes.mistake(prop, f'it is "{prop.value}". MirrorMaker 2 would not start. Write true or false.')
        return default

    def _number(self, name: str, least: int) -> int | None:
        prop = self._get(name)
        if prop is None:
            return None
        text = prop.value.strip()
        if re.fullmatch(r"-?[0-9]{1,9}", text) and int(text) >= least:
            return int(text)
        self.notes.mistake(prop, f'it is "{prop.value}", not a whole number of at least {least}. Correct it.')
        return None

    def _seconds(self, path: tuple[str, ...], name: str) -> Iterator[Field]:
        if (prop := self._get(name)) and (number := self._number(name, 1)):
            yield Field(path, f"{number}s", prop)

    def _list(self, path: tuple[str, ...], *names: str) -> Iterator[Field]:
        if prop := self._get(*names):
            yield Field(path, tuple(expressions(prop, self.notes)), prop)

    def _said(self, path: tuple[str, ...], name: str, default: bool) -> Iterator[Field]:
        """A flag of the same meaning here, written only where it differs from the default of both."""
        prop = self._get(name)
        if prop is not None and (asked := self._flag(name, default=default)) != default:
            yield Field(path, asked, prop)

    def _refuse_classes(self) -> None:
        for name, (usual, instead) in FILTERS.items():
            prop = self._get(name)
            if prop and prop.value.strip() not in (usual, KAFKA + usual):
                self.notes.mistake(
                    prop,
                    f'it is "{prop.value.strip()}". What a class of your own lets pass cannot be known here. '
                    f"Remove the line, import again, and write what it does as expressions: {instead}.",
                )

    def _records(self) -> Iterator[Field]:
        topics = self._get("topics")
        if topics is not None and not any(words(topics)):
            self.notes.mistake(topics, "it is empty. The flow would copy nothing. Name topics, or disable the flow.")
        yield Field(("topics",), tuple(expressions(topics, self.notes)) if topics else (".*",), topics or _DEFAULT)
        yield from self._list(("exclude_topics",), "topics.exclude", "topics.blacklist")
        excluded = self._get("topics.exclude", "topics.blacklist")
        if excluded is not None and not set(_ALWAYS_EXCLUDED) <= set(words(excluded)):
            self._differs(
                r"topics.exclude replaces MirrorMaker 2's default list; exclude_topics is added to it: mm2.*\.internal,"
                r" .*\.replica and __.* never travel"
            )
        elif excluded is None:
            self._differs(
                r"topics.exclude is left out: MirrorMaker 2 before 4.0 also excluded .*[\-\.]internal. Add it to "
                "exclude_topics, or write naming.policy default-before-4.0 or identity-before-4.0, "
                "if such topics shall stay"
            )
        yield from self._naming()
        yield from self._factor()
        yield from self._lanes()
        yield from self._reading()

    def _naming(self) -> Iterator[Field]:
        policy, separator, alias = (self._get(name) for name in (CLASS, SEPARATOR, ALIAS))
        for path, value, origin in RemoteNames(self.flow[0], policy, separator, alias, self.notes).fields():
            yield Field(path, value, origin)

    def _factor(self) -> Iterator[Field]:
        prop = self._get("replication.factor")
        if prop is None:
            yield Field(("replication_factor",), 2, _DEFAULT)
        elif (number := self._number("replication.factor", -1)) is not None and number != -1:
            yield Field(("replication_factor",), number, prop)

    def _lanes(self) -> Iterator[Field]:
        prop, number = self._get("tasks.max"), self._number("tasks.max", 1)
        if prop is None or number is None:
            return
        yield Field(("lanes",), min(number, _MOST_LANES), prop)
        if number > _MOST_LANES:
            self._differs(f"{prop.where}: tasks.max is {number}, lanes are at most {_MOST_LANES}")

    def _reading(self) -> Iterator[Field]:
        once = self.config.of_client(self.flow[1], "exactly.once.source.support")
        if once is None or once.value.strip().lower() != "enabled":
            self._differs(
                "delivery is exactly_once, where MirrorMaker 2 copies at least once: the mirror writes in transactions "
                "and needs the rights that doctor names; delivery: at_least_once is as before"
            )
        reset = self._looked_at(self.config.of_consumer(self.flow, "auto.offset.reset"))
        match reset.value.strip().lower() if reset else "earliest":
            case "earliest":
                pass
            case "latest" if reset is not None:
                yield Field(("start",), "latest", reset)
            case _ if reset is not None:
                self.notes.mistake(reset, f'it is "{reset.value}". A flow starts at earliest or latest. Write one.')
        isolation = self.config.of_consumer(self.flow, "isolation.level")
        if isolation is None:
            self._differs(
                "isolation is read_committed: records of aborted transactions are not copied; MirrorMaker 2 copies "
                "them by its default, read_uncommitted"
            )
        elif isolation.value.strip().lower() in ("read_committed", "read_uncommitted"):
            yield Field(("isolation",), isolation.value.strip().lower(), isolation)
        else:
            self.notes.mistake(isolation, f'it is "{isolation.value}". Write read_committed or read_uncommitted.')

    def _kept_equal(self) -> Iterator[Field]:
        yield from self._said(("sync_topic_configs", "enabled"), "sync.topic.configs.enabled", True)
        names = ("config.properties.exclude", "config.properties.blacklist")
        yield from self._list(("sync_topic_configs", "exclude"), *names)
        if prop := self._get("use.defaults.from"):
            yield Field(("sync_topic_configs", "use_defaults_from"), prop.value.strip().lower(), prop)
        acls = self._get("sync.topic.acls.enabled")
        if acls is None:
            self._differs(
                "sync.topic.acls.enabled is left out: MirrorMaker 2 gives readers of a source topic the right to read "
                "its copy; here that is asked for by access: {sync: true}"
            )
        elif self._flag("sync.topic.acls.enabled", default=True):
            yield Field(("access", "sync"), True, acls)

    def _consumers(self) -> Iterator[Field]:
        yield from self._list(("groups", "include"), "groups")
        yield from self._list(("groups", "exclude"), "groups.exclude", "groups.blacklist")
        yield from self._said(("groups", "sync_offsets"), "sync.group.offsets.enabled", False)
        yield from self._seconds(("groups", "interval"), "sync.group.offsets.interval.seconds")
        if not self._flag("sync.group.offsets.enabled", default=False):
            self._differs(
                "emit.checkpoints.enabled: checkpoints are written only with groups: {sync_offsets: true}; without it "
                "offsets translate and failover have exact positions all the same"
            )

    def _own_topics(self) -> Iterator[Field]:
        of = "mirrormaker_topics"
        beats = self._get("emit.heartbeats.enabled")
        emitted = self._flag("emit.heartbeats.enabled", default=True)
        if emitted and self._flag("heartbeats.replication.enabled", default=True):
            yield Field((of, "heartbeats"), True, beats or _DEFAULT)
            yield from self._seconds((of, "heartbeats_interval"), "emit.heartbeats.interval.seconds")
        elif emitted:
            self._differs(
                "heartbeats.replication.enabled is false: heartbeats are neither written nor mirrored",
                self._get("heartbeats.replication.enabled"),
            )
        yield from self._offset_syncs(of)

    def _offset_syncs(self, of: str) -> Iterator[Field]:
        emit, location = self._get("emit.offset-syncs.enabled"), self._get("offset-syncs.topic.location")
        asked = emit or location
        if asked is None:
            self._differs(
                "emit.offset-syncs.enabled is left out: offset syncs are not written, nothing here reads them; "
                "mirrormaker_topics: {offset_syncs: true} writes them for tools"
            )
        elif self._flag("emit.offset-syncs.enabled", default=True):
            yield Field((of, "offset_syncs"), True, asked)
            if location is not None:
                yield Field((of, "offset_syncs_location"), location.value.strip().lower(), location)
        if (separator := self._get(SEPARATOR)) and separator.value.strip():
            name = "replication.policy.internal.topic.separator.enabled"
            yield from self._said((of, "internal_topic_separator"), name, True)

"""A flow of MirrorMaker 2 as YAML of a flow here, with MirrorMaker 2's defaults."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from reconciler.environment.importers.mirrormaker.properties_file import Configuration, Flow, Notes, Property, words
from reconciler.model.environment.services import NO_SERVICE, SERVICES, guessed_service
from reconciler.replication.policy import heartbeats_expression

ALIAS, CLASS, SEPARATOR = "source.cluster.alias", "replication.policy.class", "replication.policy.separator"
KAFKA = "org.apache.kafka.connect.mirror."
KEEPS_NAMES = frozenset({
    "IdentityReplicationPolicy", f"{KAFKA}IdentityReplicationPolicy", f"{KAFKA}AutoMQIdentityReplicationPolicy",
    "ch.mawileo.kafka.mm2.PrefixlessReplicationPolicy", "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    "com.cloudera.dim.mirror.MigratingReplicationPolicy", "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
})  # fmt: skip
"""Published classes that return the name of a topic unchanged; some prefix heartbeats, as Kafka's own does."""
OF_PYTHON = "write the policy in Python: naming.policy: package.module:Class"
KEPT = f"{CLASS} = {KAFKA}IdentityReplicationPolicy"


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
VERSION = "spec.version"
"""Key of the release in Strimzi's resource; no other file has it."""
_POLICY = ("naming", "policy")
_OF_CLOUDERA = re.compile(r"(streams\.replication\.manager|srm|workers|connectors|replications)\..+")
_INTERNAL = {r".*[\-\.]internal", ".*[-.]internal"}
_CLOSES = {"(": ")", "[": "]", "{": "}"}


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
        """Whether the flow is enabled, by its own prefix or at top level; false by default."""
        return self._flag("enabled", default=False) and not self.never_started

    @property
    def never_started(self) -> bool:
        """Enabled for all clusters, where nothing starts it: MirrorMaker 2 starts a pair by its own ``enabled`` or by
        its heartbeats (MirrorMakerConfig.clusterPairs)."""
        own = "enabled" in self.config.of_flow.get(self.flow, {})
        enabled = not own and self._flag("enabled", default=False)
        return enabled and not self._emits_heartbeats

    @property
    def alias(self) -> str:
        """The source's name in MirrorMaker 2's own records: stored positions, checkpoints."""
        prop = self.config.of_connector(self.flow, ALIAS)
        return prop.value.strip() if prop is not None else self.flow[0]

    def fields(self) -> Iterator[Field]:
        """MirrorMaker 2's settings of this flow, as fields here. Where the two mean different things, that becomes a
        note; what cannot be taken over at all is a mistake, so that nothing travels otherwise than before unnoticed."""
        for name, (usual, instead) in FILTERS.items():
            prop = self._get(name)
            if prop and prop.value.strip() not in (usual, KAFKA + usual):
                self.notes.mistake(
                    prop,
                    f'it is "{prop.value.strip()}". What a class of your own lets pass cannot be known here. '
                    f"Remove the line, import again, and write what it does as expressions: {instead}.",
                )
        topics = self._get("topics")
        if topics is not None and not any(words(topics)):
            self.notes.mistake(topics, "it is empty. The flow would copy nothing. Name topics, or disable the flow.")
        if self._of_cloudera:
            self._topics_of_cloudera(topics)
        included = tuple(_expressions(topics, self.notes)) if topics else (".*",)
        if ".*" not in included and self._replicates_heartbeats and not self._emits_heartbeats:
            # MirrorMaker 2 always carries heartbeats of other flows, whatever its topics say.
            separator = self._get(SEPARATOR)
            included += (heartbeats_expression(separator.value.strip() if separator is not None else "."),)
        yield Field(("topics",), included, topics or _DEFAULT)
        yield from self._list(("exclude_topics",), "topics.exclude", "topics.blacklist")
        excluded = self._get("topics.exclude", "topics.blacklist")
        if excluded is not None and not set(_ALWAYS_EXCLUDED) <= set(words(excluded)):
            self._differs(
                r"topics.exclude replaces MirrorMaker 2's default list; exclude_topics is added to it: mm2.*\.internal,"
                r" .*\.replica and __.* never travel"
            )
        yield from self._named(words(excluded) if excluded is not None else ())
        yield from self._reading()
        yield from self._kept_equal()

    @property
    def _of_cloudera(self) -> bool:
        """Streams Replication Manager's, by the file's name, its own settings or its own class."""
        policy = self._get(CLASS)
        if policy is not None and policy.value.strip().startswith("com.cloudera."):
            return True
        names = (name for name, _ in self.config.all())
        return self.config.whole["clusters"].where.file.endswith("srm.properties") or any(
            map(_OF_CLOUDERA.fullmatch, names)
        )

    def _topics_of_cloudera(self, topics: Property | None) -> None:
        """Its driver copies the topics of a list in Kafka, so none while that is empty; MirrorMaker 2 copies all."""
        source, target = self.flow
        shown = f"srm-control topics --source {source} --target {target} --list"
        kept = "Streams Replication Manager copies the topics of a list that it keeps in Kafka"
        if topics is not None:
            self._differs(f"{kept}, which is not read: compare topics with {shown}, and groups likewise")
            return
        enabled = self._get("enabled") or self.config.whole["clusters"]
        words = f"{self.name}.topics is missing. {kept}, not all. Show it: {shown}. Write {self.name}.topics = "
        self.notes.wrong(enabled.where, f"{words}TOPIC,TOPIC, and import again.")

    @property
    def _emits_heartbeats(self) -> bool:
        return self._flag("emit.heartbeats.enabled", default=True)

    @property
    def _replicates_heartbeats(self) -> bool:
        return self._flag("heartbeats.replication.enabled", default=True)

    def _differs(self, words: str, of: Property | None = None) -> None:
        self.notes.differs(words, self.name, of)

    def _get(self, *names: str) -> Property | None:
        return self._asked_for(self.config.of_connector(self.flow, *names))

    def _asked_for(self, prop: Property | None) -> Property | None:
        if prop is not None:
            self.notes.asked_for.add(prop)
        return prop

    def _flag(self, name: str, *, default: bool) -> bool:
        prop = self._get(name)
        text = prop.value.strip().lower() if prop else ""
        if prop is None or text in ("true", "false"):
            return text == "true" if prop else default
        self.notes.mistake(prop, f'it is "{prop.value}". MirrorMaker 2 would not start. Write true or false.')
        return default

    def _number(self, name: str, least: int) -> int | None:
        """A number; None if it is missing, or invalid with a note."""
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
            yield Field(path, tuple(_expressions(prop, self.notes)), prop)
            if prop.name.endswith(".blacklist"):
                self._differs(
                    f"{names[-1]} counts here as it does in MirrorMaker 2 up to 3.9, and 4.0 and later ignore it. If "
                    "yours does, remove the line and import again"
                )

    def _said(self, path: tuple[str, ...], name: str, default: bool) -> Iterator[Field]:
        """A flag with the same meaning here, written only if it differs from the common default."""
        prop = self._get(name)
        if prop is not None and (asked := self._flag(name, default=default)) != default:
            yield Field(path, asked, prop)

    def _named(self, excluded: Iterable[str]) -> Iterator[Field]:
        """``_naming``, with the rule for internal topics of the release, where the file names one."""
        version, naming = self._get(VERSION), list(self._naming())
        release = re.match(r"(\d+)\.", version.value.strip()) if version is not None else None
        if version is not None and release is not None and int(release[1]) < 4:
            policy = next((field for field in naming if field.path == _POLICY), Field(_POLICY, "default", version))
            yield replace(policy, value=f"{policy.value}-before-4.0")
            if policy.origin is not version:
                self.notes.drops(version, "`naming.policy`, which follows from it")
            naming = [field for field in naming if field.path != _POLICY]
        elif version is not None and release is not None:
            self.notes.drops(version, "none: internal topics are those of Kafka 4.0 and later")
        elif release is None and _INTERNAL.isdisjoint(excluded):
            self._differs(
                "MirrorMaker 2 before 4.0 carries no topic that ends in -internal or .internal. Add "
                r".*[\-\.]internal to exclude_topics, or write naming.policy default-before-4.0 or "
                "identity-before-4.0, to keep them excluded"
            )
        yield from naming

    def _naming(self) -> Iterator[Field]:
        """The naming of remote topics, by policy, separator and alias.

        ``DefaultReplicationPolicy`` puts alias and separator in front, both as they are set, blank ones too. An alias
        at top level counts for every flow, before the name in ``clusters`` (MirrorMakerConfig.connectorBaseConfig,
        Kafka 2.4 to 4.3).
        """
        policy, separator, alias = (self._get(name) for name in (CLASS, SEPARATOR, ALIAS))
        kind = policy.value.strip() if policy is not None else "DefaultReplicationPolicy"
        text = separator.value.strip() if separator is not None else "."
        source, prefix = self.flow[0], self.alias
        # Identity naming needs neither separator nor alias. Names of a custom class are unknown here, so the import
        # stops. With the default policy, another separator or alias would give other remote names.
        if policy is not None and kind in KEEPS_NAMES:
            yield Field(("naming", "policy"), "identity", policy)
            if alias is not None:
                self.notes.drops(alias, "names of `clusters`")
            if separator is not None and not text:
                here = "here the separator is ."
                self.notes.leaves_out(separator, f"is blank, so heartbeats are copied to {prefix}heartbeats; {here}")
                return
        elif policy is not None and kind not in ("DefaultReplicationPolicy", f"{KAFKA}DefaultReplicationPolicy"):
            self.notes.mistake(
                policy,
                f'it is "{kind}". Java classes cannot be used here, and other names would be other topics. Where it '
                f"keeps the names of topics, write {KEPT} and import again; else remove the line, import again, and "
                f"{OF_PYTHON}.",
            )
            return
        elif separator is not None and not text:
            if prefix:
                self.notes.mistake(
                    separator,
                    f'it is blank, and the source\'s alias is "{prefix}": MirrorMaker 2 calls the copy of topic '
                    f"{prefix}topic, in which the end of the alias cannot be seen. Where names must stay as they "
                    f"are, write {ALIAS} = with nothing after it, or {KEPT}, and import again; to continue with "
                    f"{prefix}topic remove the line, import again, and {OF_PYTHON}.",
                )
                return
            yield Field(("naming", "policy"), "identity", separator)
            if alias is not None:
                self.notes.drops(alias, "with a blank separator MirrorMaker 2 keeps names, as naming: identity does")
            self.notes.leaves_out(separator, f"is blank: heartbeats are still copied to {source}.heartbeats")
            return
        elif alias is not None and prefix != source:
            renamed = f"Call the cluster {prefix} in clusters and in front of its settings, remove the line, and import"
            self.notes.mistake(
                alias,
                f'it is "{prefix}": MirrorMaker 2 calls the copy of topic {prefix}{text}topic, and here it would be '
                f"{source}{text}topic, after the cluster. "
                + (f"{renamed} again." if prefix else f"Remove the line, import again, and {OF_PYTHON}."),
            )
            return
        if separator is not None and text != separator.value:
            blanks = "has blanks around it, which no topic may have in its name"
            self.notes.leaves_out(separator, f'{blanks}: MirrorMaker 2 creates no topic with it; here it is "{text}"')
        if separator is not None and text != ".":
            yield Field(("naming", "separator"), text, separator)

    def _reading(self) -> Iterator[Field]:
        """Delivery settings: parallelism, rates, start, and guarantees."""
        factor = self._get("replication.factor")
        if factor is None:
            yield Field(("replication_factor",), 2, _DEFAULT)
        elif (number := self._number("replication.factor", -1)) is not None and number != -1:
            yield Field(("replication_factor",), number, factor)
        tasks, most = self._get("tasks.max"), self._number("tasks.max", 1)
        if tasks is not None and most is not None:
            yield Field(("lanes",), min(most, _MOST_LANES), tasks)
            if most > _MOST_LANES:
                self._differs(f"{tasks.where}: tasks.max is {most}, lanes are at most {_MOST_LANES}")

        once = self.config.of_client(self.flow[1], "exactly.once.source.support")
        servers = self.config.of_cluster[self.flow[1]].get("bootstrap.servers")
        offer = SERVICES.get(guessed_service(tuple(words(servers))), NO_SERVICE) if servers is not None else NO_SERVICE
        if once is not None and once.value.strip().lower() == "enabled":
            pass
        elif servers is not None and offer.transactions is False:
            yield Field(("delivery",), "at_least_once", servers)
            self._differs(f"delivery is at_least_once, as in MirrorMaker 2: {offer.title} may lack transactions")
        else:
            self._differs(
                "delivery is exactly_once, where MirrorMaker 2 copies at least once: the mirror writes in transactions "
                "and needs the rights that doctor names; delivery: at_least_once keeps MirrorMaker 2's way"
            )
        # Only partitions without a stored position start there; ``mirror import-positions`` takes over the stored ones.
        reset = self._asked_for(self.config.of_consumer(self.flow, "auto.offset.reset"))
        match reset.value.strip().lower() if reset else "earliest":
            case "earliest":
                pass
            case "latest" if reset is not None:
                yield Field(("start",), "latest", reset)
                self.notes.leaves_out(
                    reset,
                    "is latest: that counts where the flow begins; topics that appear later are copied from their "
                    "first record, where MirrorMaker 2 begins them at their end",
                )
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
        """Settings of what follows the source: configs, access and groups; then MirrorMaker 2's internal topics."""
        yield from self._said(("sync_topic_configs", "enabled"), "sync.topic.configs.enabled", True)
        names = ("config.properties.exclude", "config.properties.blacklist")
        yield from self._list(("sync_topic_configs", "exclude"), *names)
        if prop := self._get("use.defaults.from"):
            yield Field(("sync_topic_configs", "use_defaults_from"), prop.value.strip().lower(), prop)
        acls = self._get("sync.topic.acls.enabled")
        if acls is None:
            self._differs(
                "sync.topic.acls.enabled is left out: MirrorMaker 2 gives readers of a source topic the right to read "
                "its copy; here access: {sync: true} does so"
            )
        elif self._flag("sync.topic.acls.enabled", default=True):
            yield Field(("access", "sync"), True, acls)

        # Checkpoints come with synced offsets here; MirrorMaker 2 writes them also without.
        yield from self._list(("groups", "include"), "groups")
        yield from self._list(("groups", "exclude"), "groups.exclude", "groups.blacklist")
        yield from self._said(("groups", "sync_offsets"), "sync.group.offsets.enabled", False)
        yield from self._seconds(("groups", "interval"), "sync.group.offsets.interval.seconds")
        if not self._flag("sync.group.offsets.enabled", default=False):
            self._differs(
                "emit.checkpoints.enabled: checkpoints are written only with groups: {sync_offsets: true}; without it "
                "offsets translate and failover still have exact positions"
            )

        # Topics of MirrorMaker 2's own: heartbeats and offset syncs, for tools that read them.
        of = "mirrormaker_topics"
        beats = self._get("emit.heartbeats.enabled")
        if self._emits_heartbeats and self._replicates_heartbeats:
            yield Field((of, "heartbeats"), True, beats or _DEFAULT)
            yield from self._seconds((of, "heartbeats_interval"), "emit.heartbeats.interval.seconds")
        elif self._emits_heartbeats:
            self._differs(
                "heartbeats.replication.enabled is false: heartbeats are neither written nor mirrored",
                self._get("heartbeats.replication.enabled"),
            )

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


def _expressions(prop: Property, notes: Notes) -> Iterator[str]:
    """A list as MirrorMaker 2 reads it: split at every comma, then joined with ``|`` into one pattern. So a comma in
    brackets becomes ``|``, and with one in braces the pattern does not compile."""
    torn = ""
    for part in words(prop):
        if re.search(r"[\t\n\f\r]", part):
            notes.leaves_out(
                prop,
                f"has {part!a}, with a control character, so it matches nothing in MirrorMaker 2 and is left out "
                "here: one backslash begins an escape in a properties file, such as \\r and \\t; two make one",
            )
            continue
        # A part with an open bracket continues in the next one, so both are one expression here.
        text = f"{torn}|{part}" if torn else part
        if _unclosed(text).endswith("{"):
            notes.mistake(
                prop,
                f'MirrorMaker 2 splits "{prop.value.strip()}" at its commas, in braces, too, and what comes of it is '
                "no expression that it could start with. Write it without a comma, such as a|aa for a{1,2}, and "
                "import again.",
            )
            return
        torn = text if _unclosed(text) else ""
        if not torn:
            if text != part:
                notes.differs(
                    f"{prop.where}: {prop.name} is split at commas: MirrorMaker 2 reads {text}, as written here"
                )
            yield text
    if torn:
        yield torn


def _unclosed(text: str) -> str:
    """Brackets that nothing closes, outermost first."""
    opened, escaped = "", False
    for char in text:
        if escaped or char == "\\":
            escaped = not escaped
        elif opened.endswith("["):
            opened = opened.removesuffix("[") if char == "]" else opened
        elif char in _CLOSES:
            opened += char
        elif opened and char == _CLOSES[opened[-1]]:
            opened = opened[:-1]
    return opened

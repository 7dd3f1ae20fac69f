"""Scopes of MirrorMaker 2's settings (cluster or flow), and their precedence.

``A->B.x`` is a flow's, ``A.x`` a cluster's, ``x`` is at top level, for all. Of a connector's settings only those of the
flow and of the top level count; of connections those of the cluster and of the top level (MirrorMakerConfig, Kafka 2.4
to 4.3).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.environment.importers.mirrormaker.properties_file import Mistake, Property, parse, uncommented, unquoted
from reconciler.errors import Where

Flow = tuple[str, str]
"""Aliases of source and target."""

ALIASES = ("source.cluster.alias", "target.cluster.alias")
_FLOW = re.compile(r"(.+?)->(.+)")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One file of MirrorMaker 2, sorted: settings without their prefix, of each the last one that is written."""

    clusters: tuple[str, ...]
    """Aliases, in the file's order."""
    whole: Mapping[str, Property]
    """At top level, for all clusters and flows."""
    of_cluster: Mapping[str, Mapping[str, Property]]
    of_flow: Mapping[Flow, Mapping[str, Property]]
    doubled: tuple[tuple[Property, Property], ...] = ()
    """A property and the later one that replaced it."""

    def all(self) -> Iterator[tuple[str, Property]]:
        """Each property with its name without a prefix."""
        for part in (self.whole, *self.of_cluster.values(), *self.of_flow.values()):
            yield from part.items()

    def of_connector(self, flow: Flow, *names: str) -> Property | None:
        """The first name that is set, of the flow before that at top level: a connector gets all that are set, and a
        name counts before the one that it replaced (ConfigUtils.translateDeprecatedConfigs)."""
        parts = (self.of_flow.get(flow, {}), self.whole)
        return next((part[name] for name in names for part in parts if name in part), None)

    def of_client(self, cluster: str, name: str) -> Property | None:
        return self.of_cluster.get(cluster, {}).get(name) or self.whole.get(name)

    def of_consumer(self, flow: Flow, name: str) -> Property | None:
        """A setting of the consumer that reads records. Without a prefix MirrorMaker 2 drops it."""
        own, source = self.of_flow.get(flow, {}), self.of_cluster.get(flow[0], {})
        props = own.get(f"source.consumer.{name}"), source.get(f"consumer.{name}"), own.get(f"consumer.{name}")
        return next((prop for prop in props if prop is not None), None)


@dataclass(slots=True)
class Notes:
    """What the import reports: ``different`` from MirrorMaker 2, with the flows that it concerns."""

    mistakes: list[Mistake] = field(default_factory=list)
    """What keeps the import from being written."""
    different: dict[str, list[str]] = field(default_factory=dict)
    unneeded: dict[str, list[str]] = field(default_factory=dict)
    """Settings that need no counterpart here, by the words that say why."""
    secrets: dict[str, str] = field(default_factory=dict)
    """Variable -> what it must hold."""
    owners: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Variable -> the cluster and setting that it is for."""
    settled: set[Property] = field(default_factory=set)
    """Properties that became a line or are reported."""
    asked_for: set[Property] = field(default_factory=set)
    """Those that a flow asked for."""
    unfilled: set[Property] = field(default_factory=set)
    """Those with a placeholder, which is all that is reported of them."""
    refused: set[Property] = field(default_factory=set)
    """Those of a login with a mistake, which is all that is reported of it."""

    def mistake(self, prop: Property, words: str) -> None:
        self.settled.add(prop)
        if prop in self.unfilled:
            return
        self.wrong(prop.where, f"{prop.name}: {words}")

    def wrong(self, where: Where, words: str) -> None:
        """A mistake that is not one property's."""
        self.mistakes.append(Mistake(where, words))

    def differs(self, words: str, flow: str = "", of: Property | None = None) -> None:
        flows = self.different.setdefault(words, [])
        if flow:
            flows.append(flow)
        if of is not None:
            self.settled.add(of)

    def leaves_out(self, prop: Property, words: str) -> None:
        """``words``: continue the sentence after the property's name."""
        self.differs(f"{prop.where}: {prop.name} {words}", of=prop)

    def drops(self, prop: Property, words: str) -> None:
        self.settled.add(prop)
        self.skips(prop.name, words)

    def skips(self, name: str, words: str) -> None:
        self.unneeded.setdefault(words, []).append(name)


def parse_plainly(file: str, text: str, notes: Notes) -> tuple[Property, ...]:
    """The file's properties without quotes and comments around values. Each of these is a mistake; the inner value is
    still parsed, so that all other mistakes are found."""
    props, mistakes = parse(file, text)
    notes.mistakes += mistakes
    plain = []
    for prop in props:
        shown, without = prop.value.strip(), uncommented(prop)
        if without is not prop:
            mistake = (
                f"it is {shown}, and # begins a comment only as the first character of a line in Java's properties"
            )
            notes.mistake(
                prop, f"{mistake}: MirrorMaker 2 takes it for a part of the value. Give it a line of its own."
            )
        prop, before = unquoted(without), without
        if prop is not before:
            mistake = f"it is {shown}, and quotes are part of the value in Java's properties"
            notes.mistake(before, f"{mistake}: MirrorMaker 2 takes them for letters. Remove the quotes.")
        plain.append(prop)
    return tuple(plain)


def alike(one: Property, other: Property) -> bool:
    """Whether both are equal. Spaces in a login module's line do not matter."""
    values = one.value, other.value
    first, second = (
        re.sub(r"\s", "", value) if one.name.endswith("jaas.config") else value.strip() for value in values
    )
    return first == second


def sort(properties: Iterable[Property], notes: Notes) -> Configuration:
    """Properties by their scope, of each the last one that is written: Java's Properties forgets the earlier ones."""
    last: dict[str, Property] = {}
    doubled = []
    for prop in properties:
        if prop.name in last:
            doubled.append((last[prop.name], prop))
        last[prop.name] = prop
    named = last.get("clusters")
    clusters = tuple(dict.fromkeys(words(named))) if named is not None else ()
    whole: dict[str, Property] = {}
    of_cluster: dict[str, dict[str, Property]] = {name: {} for name in clusters}
    of_flow: dict[Flow, dict[str, Property]] = {}
    for prop in last.values():
        if match := _FLOW.fullmatch(prop.name):
            source, rest = match.groups()
            target, setting = _of(rest, clusters)
            if source not in clusters or not target:
                end = source if source not in clusters else rest.split(".")[0]
                why = f'cluster "{end}" is not in clusters, so MirrorMaker 2 does not read it either'
                notes.leaves_out(prop, f"has no effect: {why}")
            else:
                of_flow.setdefault((source, target), {})[setting] = prop
            continue
        # MirrorMaker 2 reads these at top level, even if a cluster is named source
        cluster, setting = _of(prop.name, clusters) if prop.name not in ALIASES else ("", prop.name)
        (of_cluster[cluster] if cluster else whole)[setting] = prop
    return Configuration(clusters, whole, of_cluster, of_flow, tuple(doubled))


def _of(name: str, clusters: Iterable[str]) -> tuple[str, str]:
    """The cluster with the longest alias that, with a dot, is a prefix of the name; and the rest."""
    fits = [cluster for cluster in clusters if name.startswith(f"{cluster}.") and len(name) > len(cluster) + 1]
    alias = max(fits, key=len, default="")
    return alias, name[len(alias) + 1 :] if alias else name


def words(prop: Property) -> Iterator[str]:
    """Kafka's lists: commas between, spaces do not count."""
    yield from (word.strip() for word in prop.value.split(",") if word.strip())

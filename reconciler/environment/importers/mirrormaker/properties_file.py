"""Parses MirrorMaker 2's properties files for import: Java's format, each property with its line; then scopes of
settings (cluster or flow), and their precedence.

A value keeps trailing spaces, as in Java. ``A->B.x`` is a flow's, ``A.x`` a cluster's, ``x`` is at top level, for all.
Of a connector's settings only those of the flow and of the top level count; of connections those of the cluster and of
the top level (MirrorMakerConfig, Kafka 2.4 to 4.3).
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.errors import Where

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")
_TAKEN_AS_IT_IS = re.compile(
    r"(.+[.])?(clusters|enabled|bootstrap\.servers|(topics|groups)(\.exclude|\.blacklist)?|security\.protocol"
    r"|sasl\.mechanism|replication\.(factor|policy\.class|policy\.separator)|source\.cluster\.alias|isolation\.level)"
)
_IN_QUOTES = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_UNFIT = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SPACES = re.compile("[\t\n\f\r\u2028\u2029]")
Flow = tuple[str, str]
"""Aliases of source and target."""

ALIASES = ("source.cluster.alias", "target.cluster.alias")
_FLOW = re.compile(r"(.+?)->(.+)")


@dataclass(frozen=True, slots=True)
class Property:
    """``where``: the line on which it begins."""

    name: str
    value: str
    where: Where


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why a file cannot be imported: ``words`` are sentences, and hold no value of a secret."""

    where: Where
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


def decoded(content: bytes) -> str:
    """Decodes UTF-8 if valid, else ISO 8859-1, which accepts any bytes; UTF-16 with a byte order mark, as written by
    Windows shells."""
    try:
        if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def parse(file: str, text: str) -> tuple[tuple[Property, ...], tuple[Mistake, ...]]:
    """Properties in line order, with duplicates. An unreadable line is a mistake, and the rest is still parsed."""
    props: list[Property] = []
    mistakes: list[Mistake] = []
    lines = enumerate(_NEWLINE.split(text), start=1)
    for number, first in lines:
        content = first.lstrip(_BLANK)
        if not content or content[0] in "#!":
            continue
        # An odd number of trailing backslashes continues the line: the last one is not escaped.
        parts = []
        while (len(content) - len(content.rstrip("\\"))) % 2:
            parts.append(content[:-1])
            content = next(lines, (0, ""))[1].lstrip(_BLANK)
        line = "".join([*parts, content])
        if not line:
            continue

        where = Where(file, number, 1)
        # The key ends before the first blank, = or : that no backslash escapes (java.util.Properties).
        end = 0
        while end < len(line) and line[end] not in "=:" + _BLANK:
            end += 2 if line[end] == "\\" else 1
        value = line[end:].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        try:
            prop = Property(_unescaped(line[:end]), _unescaped(value), where)
        except ValueError as error:
            mistakes.append(Mistake(where, f"{error}. Java refuses the whole file. Write \\u and four hex digits."))
            continue
        if _UNFIT.search(prop.name + prop.value) or _SPACES.search(prop.name):
            mistakes.append(Mistake(where, "a control character. No setting of MirrorMaker 2 has one. Remove it."))
            continue
        props.append(prop)
    return tuple(props), tuple(mistakes)


def uncommented(prop: Property) -> Property:
    """The property without a trailing # comment, for settings that cannot contain one; in Java it is part of the value.
    The same property without a comment."""
    value, mark, _ = prop.value.partition(" #")
    return replace(prop, value=value.strip()) if mark and _TAKEN_AS_IT_IS.fullmatch(prop.name) else prop


def unquoted(prop: Property) -> Property:
    """The property without quotes around the value, or each part of a list, for settings that cannot contain quotes; in
    Java they are part of the value. The same property without quotes."""
    if not _TAKEN_AS_IT_IS.fullmatch(prop.name):
        return prop
    value = prop.value.strip()
    parts = [value] if re.fullmatch(r"""(["'])((?!\1).)*\1""", value) else value.split(",")
    matches = [_IN_QUOTES.fullmatch(part.strip()) for part in parts]
    if not any(matches):
        return prop
    plain = [match[2] if match else part.strip() for match, part in zip(matches, parts, strict=True)]
    return replace(prop, value=",".join(plain))


def _unescaped(text: str) -> str:
    """As java.util.Properties reads escapes: an unknown one is the character itself. Raises ValueError for a Unicode
    escape without four hex digits."""
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            parts.append(char)
            continue
        char, at = text[at : at + 1], at + 1
        if char == "u":
            digits = _HEX.match(text, at)
            if digits is None:
                raise ValueError("\\u without four hex digits")
            parts.append(chr(int(digits.group(), 16)))
            at = digits.end()
        else:
            parts.append(_ESCAPES.get(char, char))
    # Java's characters are of 16 bits: two escapes may be one character
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


# scopes


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

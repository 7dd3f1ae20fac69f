"""Writes an adopted cluster as YAML files: stable order, units, comments for what is left out."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler.environment.adopt.entries import ELSEWHERE, NOT_CHOSEN, Adopted, AdoptedTopic, Adoption, counts
from reconciler.model.environment.topology import Cluster
from reconciler.model.principals import (
    BYTE_RATES,
    WILDCARD,
    AccessRule,
    PatternType,
    Permission,
    Quota,
    ResourceType,
    ScramUser,
    exact_size,
)

WIDTH = 120
ONE_FILE = 60
"""Most topics in one file; more are grouped by the prefixes of their names."""
FILE_LIMIT = 400

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_QUANTITY = re.compile(r"[1-9][0-9]*(ms|s|m|h|d|w|KiB|MiB|GiB|TiB)")
# YAML 1.1 readers take these for booleans and nothing; 1.2 readers only some
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_SEGMENT = re.compile(r"[._-]")


def texts(adoption: Adoption) -> dict[str, str]:
    """``cluster.yaml``; ``access.yaml``, ``quotas.yaml``, ``users.yaml`` if there are any;
    ``topics.yaml`` or ``topics/<names begin>.yaml``."""
    by_name = {"cluster.yaml": _cluster_text(adoption)}
    if adoption.access.entries:
        by_name["access.yaml"] = _access_text(adoption.access)
    if adoption.quotas.entries:
        by_name["quotas.yaml"] = _quotas_text(adoption.quotas)
    if adoption.users.entries:
        by_name["users.yaml"] = _users_text(adoption.users)
    if len(adoption.topics) <= ONE_FILE:
        return by_name | ({"topics.yaml": topics_text(adoption.topics)} if adoption.topics else {})

    # Groups by the first words of names; single topics share a file; groups that stay too long are split by number.
    groups: dict[str, list[AdoptedTopic]] = {}
    for name, members in sorted(_by_prefix(adoption.topics, 1).items()):
        groups.setdefault(name if len(members) > 1 else "other", []).extend(members)
    for name, members in sorted(groups.items()):
        members.sort(key=lambda topic: topic.topic.name)
        for begin in range(0, len(members), FILE_LIMIT):
            number = f"-{begin // FILE_LIMIT + 1:03}" if len(members) > FILE_LIMIT else ""
            by_name[f"topics/{name}{number}.yaml"] = topics_text(members[begin : begin + FILE_LIMIT])
    return by_name


def topics_text(topics: Iterable[AdoptedTopic], beside: Iterable[str] = ()) -> str:
    """One file of topics alone, for a cluster that is declared. ``beside``: comments at its head."""
    lines: list[str] = []
    for adopted in topics:
        topic = adopted.topic
        for comment in adopted.comments:
            lines += _comment(comment, "  ")
        fields = {"clusters": _list(topic.clusters)}
        if topic.partitions is not None:
            fields["partitions"] = str(topic.partitions)
        if topic.replication_factor is not None:
            fields["replication_factor"] = str(topic.replication_factor)
        configs = {scalar(key): value(text) for key, text in topic.configs.items()}
        short = fields | ({"configs": _flow(configs)} if configs else {})
        line = f"  {scalar(topic.name)}: {_flow(short)}"
        if len(line) <= WIDTH:
            lines.append(line)
            continue
        lines.append(f"  {scalar(topic.name)}:")
        lines += (f"    {key}: {text}" for key, text in fields.items())
        if configs:
            lines += ["    configs:", *(f"      {key}: {text}" for key, text in configs.items())]
    return _section_text("topics", (line for text in beside for line in _comment(text)), (), lines)


def scalar(text: str) -> str:
    """Unquoted if every YAML parser reads it as this text, else in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if _QUANTITY.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def value(text: str) -> str:
    """A config or setting: Kafka takes texts, so a number may be unquoted if its spelling is canonical."""
    return text if _NUMBER.fullmatch(text) else scalar(text)


def _cluster_text(adoption: Adoption) -> str:
    """The cluster's own file. Its head says what was left out and why, for the person who reviews it."""
    cluster = adoption.cluster
    said = [f"Adopted from the live cluster {cluster.cluster_id}: its topics are beside this file."]
    said += [f"Note: {note}." for note in adoption.notes]
    for rule, names in counts(adoption.left_out).items():
        listed = f": {', '.join(names)}" if rule != NOT_CHOSEN else ""
        said.append(f"Left out, {rule} ({len(names)}){listed}")
    elsewhere = (ignored for ignored in adoption.left_out if ignored.rule == ELSEWHERE)
    said += dict.fromkeys(f"{ignored.subject}: {ignored.text}" for ignored in elsewhere)
    lines = [line for text in said for line in _comment(text)]

    lines += ["clusters:", *cluster_head(cluster)]
    if cluster.cluster_id is not None:
        lines.append(f"    cluster_id: {scalar(cluster.cluster_id)}")
    lines.append("    # What is set on a topic and in no file counts as drift.")
    lines.append("    defaults: {undeclared: drift}")
    return "\n".join([*lines, *logins(cluster)]) + "\n"


def cluster_head(cluster: Cluster) -> Iterator[str]:
    yield f"  {scalar(cluster.name)}:"
    yield f"    bootstrap_servers: [{', '.join(map(scalar_server, cluster.bootstrap_servers))}]"


def _comment(text: str, indent: str = "") -> Iterator[str]:
    """``text`` may hold anything that a broker reported: it becomes one line before it is wrapped."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    start = f"{indent}# "
    whole_words = textwrap.TextWrapper(WIDTH, start, f"{start}  ", break_long_words=False, break_on_hyphens=False)
    yield from whole_words.wrap(clean)


def logins(cluster: Cluster) -> Iterator[str]:
    """``client`` and ``principals``, if the cluster has any."""
    if cluster.client:
        yield "    client:"
        yield from (f"      {scalar(key)}: {value(text)}" for key, text in sorted(cluster.client.items()))
    if cluster.principals:
        yield "    principals:"
    for who, settings in sorted(cluster.principals.items()):
        yield f"      {who}:"
        yield from (f"        {scalar(key)}: {value(text)}" for key, text in sorted(settings.items()))


def scalar_server(server: str) -> str:
    """``host:port`` is plain in a list; an address in brackets is not."""
    return json.dumps(server) if server.startswith("[") else server


def _section_text(name: str, head: Iterable[str], left_out: Iterable[str], entries: Iterable[str]) -> str:
    comments = (line for each in left_out for line in _comment(f"Left out: {each}"))
    return "\n".join([*head, *comments, f"{name}:", *entries]) + "\n"


def _access_text(access: Adopted[AccessRule]) -> str:
    """YAML of exact rules, in the usual order of fields, without defaults."""
    head = "# The rules as the cluster holds them. Roles (read, write, ...) say the same in fewer words."
    lines: list[str] = []
    for rule in access.entries:
        assert rule.exact is not None
        exact = rule.exact
        fields = {
            "principal": scalar(rule.principal),
            "clusters": _list(rule.clusters),
            "resource": str(exact.resource),
        }
        if exact.resource is not ResourceType.CLUSTER:
            names = (
                scalar(name.name) if name.pattern is PatternType.LITERAL else f"{{prefix: {scalar(name.name)}}}"
                for name in exact.names
            )
            fields["names"] = f"[{', '.join(names)}]"
        fields["operations"] = _list(map(str, exact.operations))
        if exact.permission is not Permission.ALLOW:
            fields["permission"] = str(exact.permission)
        if rule.hosts != (WILDCARD,):
            fields["hosts"] = _list(rule.hosts)
        lines += _item_of_list(fields)
    return _section_text("access", [head], access.left_out, lines)


def _quotas_text(adopted: Adopted[Quota]) -> str:
    lines: list[str] = []
    for quota in adopted.entries:
        fields = {"clusters": _list(quota.clusters)}
        for part in quota.entity.parts:
            fields[part.kind.replace("-", "_")] = scalar(part.name) if part.name else "{default: true}"
        for key, limit in quota.limits.items():
            if key in BYTE_RATES:
                fields[key] = exact_size(limit).replace(" ", "")
            else:  # never 1e-05, which YAML 1.1 reads as text
                fields[key] = str(int(limit)) if limit == int(limit) else format(Decimal(repr(limit)), "f")
        lines.append(f"  - {_flow(fields)}")
    return _section_text("quotas", ["# The quotas as the cluster holds them."], adopted.left_out, lines)


def _users_text(adopted: Adopted[ScramUser]) -> str:
    head = [
        "# The SCRAM users as the cluster holds them. Version 0 keeps the existing password. To set one, let",
        "# password refer to it, and raise version.",
    ]
    lines: list[str] = []
    for user in adopted.entries:
        fields = {
            "clusters": _list(user.clusters),
            "name": scalar(user.name),
            "mechanisms": f"[{', '.join(user.mechanisms)}]",
        }
        if user.iterations is not None:
            fields["iterations"] = str(user.iterations)
        fields |= {"version": str(user.version), "password": json.dumps(user.password)}
        if user.take_over:
            fields["take_over"] = "true"
        lines += _item_of_list(fields)
    return _section_text("users", head, adopted.left_out, lines)


def _item_of_list(fields: Mapping[str, str]) -> Iterator[str]:
    """On one line if it fits."""
    short = f"  - {_flow(fields)}"
    if len(short) <= WIDTH:
        yield short
        return
    signs = ("- ", *("  " for _ in fields))
    yield from (f"  {sign}{key}: {text}" for sign, (key, text) in zip(signs, fields.items(), strict=False))


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(scalar, texts))}]"


def _flow(fields: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {text}" for key, text in fields.items()) + "}"


def _by_prefix(topics: Sequence[AdoptedTopic], words: int) -> dict[str, list[AdoptedTopic]]:
    """Topics by the first ``words`` of their names: more words for a group that is too long, as long as they divide it
    into groups and not into single topics."""
    by_prefix: dict[str, list[AdoptedTopic]] = {}
    for topic in topics:
        segments = [segment for segment in _SEGMENT.split(topic.topic.name.lower()) if segment]
        by_prefix.setdefault("-".join(segments[:words])[:80] or "other", []).append(topic)
    whole: dict[str, list[AdoptedTopic]] = {}
    for name, members in by_prefix.items():
        longer = _by_prefix(members, words + 1) if len(members) > FILE_LIMIT and words < 4 else {}
        useful = 1 < len(longer) <= len(members) // 4
        for inner, part in (longer if useful else {name: members}).items():
            whole.setdefault(inner, []).extend(part)
    return whole

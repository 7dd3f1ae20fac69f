"""Every key of the environment's schema, added, changed and removed: the plan has a change for it, refuses it, or its
headline says that it has no effect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from reconciler.engine.edits.compare import compare
from reconciler.engine.edits.edit_and_plan import EditAndPlan
from reconciler.engine.edits.effects import lead, without_effect
from reconciler.engine.plan.build import plan
from reconciler.environment.load import load
from reconciler.errors import BlockedError, Problem, TopologyError
from reconciler.model.environment.topology import Principal
from tests.support.builders import World
from tests.support.fakes.cluster import FakeCluster
from tests.support.paths import ROOT

SCHEMA = json.loads((ROOT / "schemas" / "environment.schema.json").read_text(encoding="utf-8"))
NAMES = {"clusters": "east", "topics": "orders", "flows": "east-to-west", "mirrors": "west", "classes": "logs"}
"""The entry that represents all of its kind."""
ALWAYS_REFUSED = {"moved[].topic"}
BASE: Mapping[str, Any] = {
    "clusters": {
        "east": {"bootstrap_servers": ["east:9092"], "region": "eu", "defaults": {"replication_factor": 1}},
        "west": {"bootstrap_servers": ["west:9092"], "region": "us", "defaults": {"replication_factor": 1}},
        "spare": {"bootstrap_servers": ["spare:9092"], "region": "us", "defaults": {"replication_factor": 1}},
    },
    "classes": {"logs": {"configs": {"segment.ms": "1h"}}},
    "topics": {
        "orders": {"clusters": ["east"], "class": "logs", "partitions": 2, "configs": {"retention.ms": "1d"}},
        "pay": {"clusters": ["east"]},
    },
    "flows": {"east-to-west": {"source": "east", "target": "west", "topics": ["orders"]}},
}


@dataclass(frozen=True)
class Key:
    """Two values of a key, and what else its entry has. ``at``: the key around it that has the two values, where it
    cannot come, change or go alone."""

    one: Any
    two: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""


def _of_layer(above: str) -> Iterator[tuple[str, Key]]:
    yield f"{above}.partitions", Key(3, 4)
    yield f"{above}.replication_factor", Key(1, 2)
    yield f"{above}.configs", Key({"max.message.bytes": 900_000}, {"max.message.bytes": 900_001})
    yield f"{above}.lower_retention_by", Key({"retention.ms": "1d"}, {"retention.ms": "2d"})
    yield f"{above}.lower_retention_by.retention.ms", Key("1d", "2d")
    yield f"{above}.lower_retention_by.retention.bytes", Key("1GiB", "2GiB")
    yield f"{above}.undeclared", Key("drift", "remove")


def _of_where() -> Iterator[tuple[str, Key]]:
    above = "flows.*.where"
    one, two = {"key": {"equals": "a"}}, {"key": {"equals": "b"}}
    yield above, Key(one, two)
    for name in ("all", "any"):
        yield f"{above}.{name}", Key([one], [one, two])
    yield f"{above}.not", Key(one, two)
    for test, more in (("header", {"name": "h"}), ("key", {})):
        yield f"{above}.{test}", Key({**more, "equals": "a"}, {**more, "equals": "b"})
        beside = {"where": {test: more}}
        yield f"{above}.{test}.exists", Key(True, False, beside)
        for name in ("equals", "prefix"):
            yield f"{above}.{test}.{name}", Key("a", {"hex": "00ff"}, beside)
            yield f"{above}.{test}.{name}.hex", Key("00", "01", beside)
        yield f"{above}.{test}.matches", Key("a+", "b+", beside)
    yield f"{above}.header.name", Key("a", "b", {"where": {"header": {"exists": True}}})
    yield f"{above}.timestamp", Key({"from": 1}, {"from": 2})
    yield f"{above}.timestamp.from", Key(1, 2)
    yield f"{above}.timestamp.to", Key(1, 2)


def _of_flows() -> Iterator[tuple[str, Key]]:
    above = "flows.*"
    sync = {"groups": {"sync_offsets": True}}
    compatible = {"mirrormaker_topics": {"heartbeats": True, "offset_syncs": True}}
    same = {"offsets": "same", "naming": {"policy": "identity"}}
    values: Mapping[str, Key] = {
        "source": Key("east", "spare"), "target": Key("west", "spare"), "topics": Key(["orders"], ["orders", "pay"]),
        "exclude_topics": Key(["pay"], ["orders"]),
        "naming": Key({"policy": "default"}, {"policy": "identity"}),
        "naming.policy": Key("default", "identity"), "naming.separator": Key(".", "-"),
        "replication_factor": Key(1, 2), "delivery": Key("exactly_once", "at_least_once"),
        "isolation": Key("read_committed", "read_uncommitted", {"delivery": "at_least_once"}),
        "lanes": Key(2, 3), "start": Key("latest", "earliest"),
        "start.timestamp": Key(1, 2), "start.offsets": Key({"orders": {"0": 1}}, {"orders": {"0": 2}}),
        "start.otherwise": Key("earliest", "latest", {"start": {"offsets": {"orders": {"0": 1}}}}),
        "rate_limit": Key("1MiB", "2MiB"),
        "on_condition": Key("continue", {"record_refused": "continue"}),
        "access": Key({"sync": True}, {"sync": True, "groups": True}), "access.sync": Key(True, False),
        "access.groups": Key(True, False, {"access": {"sync": True}}),
        "access.principals": Key({"User:a": "User:b"}, {"User:a": "User:c"}, {"access": {"sync": True}}),
        "sync_topic_configs": Key({"enabled": True}, {"enabled": False}),
        "sync_topic_configs.enabled": Key(True, False),
        "sync_topic_configs.exclude": Key(["retention.ms"], ["segment.ms"]),
        "sync_topic_configs.use_defaults_from": Key("target", "source"),
        "sync_topic_configs.carry_undeclared_limits": Key(False, True),
        "groups": Key({"include": ["a"]}, {"include": ["b"]}), "groups.include": Key(["a"], ["b"]),
        "groups.exclude": Key(["a"], ["b"]), "groups.sync_offsets": Key(True, False),
        "groups.interval": Key("5s", "6s", sync), "groups.follow_rewinds": Key(True, False, sync),
        "groups.both_ways": Key(True, False, sync),
        "headers": Key({"add": {"a": "1"}}, {"add": {"a": "2"}}), "headers.add": Key({"a": "1"}, {"b": "1"}),
        "mirrormaker_topics": Key({"heartbeats": True}, {"offset_syncs": True}),
        "mirrormaker_topics.heartbeats": Key(True, False),
        "mirrormaker_topics.heartbeats_interval": Key("5s", "6s", compatible),
        "mirrormaker_topics.offset_syncs": Key(True, False),
        "mirrormaker_topics.offset_syncs_location": Key("source", "target", compatible),
        "mirrormaker_topics.internal_topic_separator": Key(
            True, False, {**compatible, "naming": {"separator": "-"}}
        ),
        "provenance": Key("local", "forward", {"naming": {"policy": "identity"}}),
        "offsets": Key("same", "translated", same), "filler_limit": Key(10, 20, same),
        "objectives": Key({"rto": "5m"}, {"rto": "6m"}), "objectives.rto": Key("5m", "6m"),
        "objectives.rpo": Key("5s", "6s"), "objectives.drill_every": Key("5d", "6d"),
        "copies": Key("read_only", "writable"), "labels": Key({"a": "b"}, {"a": "c"}),
    }  # fmt: skip
    return ((f"{above}.{name}", key) for name, key in values.items())


def _of_mirrors() -> Iterator[tuple[str, Key]]:
    python = {"archive": "hdfs:///a.tar.gz", "executable": "./environment/bin/python"}
    remote = {"master": "spark://s:7077"}
    values: Mapping[str, Key] = {
        "flows": Key(["east-to-west"], []), "master": Key("local[2]", "spark://s:7077"), "parallelism": Key(2, 3),
        "deploy_mode": Key("client", "cluster", {**remote, "python": python}),
        "executors": Key(2, 3, {**remote, "cores": 1}),
        "cores": Key(2, 3, remote), "memory": Key("1g", "2g", remote),
        "python": Key(python, {**python, "archive": "hdfs:///b.tar.gz"}, remote),
        "python.archive": Key("hdfs:///a.tar.gz", "hdfs:///b.tar.gz", {**remote, "python": python}),
        "python.executable": Key("./a/bin/python", "./b/bin/python", {**remote, "python": python}),
        "spark_conf": Key({"spark.app.name": "a"}, {"spark.app.name": "b"}),
        "verify_conf": Key({"spark.app.name": "a"}, {"spark.app.name": "b"}),
        "refresh_interval": Key("5s", "6s"), "status_interval": Key("5s", "6s"), "metrics_port": Key(9101, 9102),
        "metrics_host": Key("127.0.0.1", "0.0.0.0", {"metrics_port": 9101}),
        "channel": Key({"ports": "4000-4100"}, {"ports": "4000-4200"}, remote),
        "channel.bind_address": Key("127.0.0.1", "0.0.0.0", remote),
        "channel.advertised_address": Key("a.example.org", "b.example.org", remote),
        "channel.ports": Key("4000-4100", "4000-4200", remote), "hosted": Key(True, False),
    }  # fmt: skip
    return ((f"mirrors.*.{name}", key) for name, key in values.items())


def _of_access() -> Iterator[tuple[str, Key]]:
    reads = {"role": "consumer", "principal": "User:a", "clusters": ["east"], "topics": ["orders"], "groups": ["g"]}
    writes = {"role": "producer", "principal": "User:a", "clusters": ["east"], "topics": ["orders"]}
    streams = {
        "role": "streams", "principal": "User:a", "clusters": ["east"], "application_id": "app", "reads": ["orders"],
        "writes": ["pay"],
    }  # fmt: skip
    mirror = {"role": "mirror", "principal": "User:a", "clusters": ["east"], "flows": ["east-to-west"]}
    raw = {
        "principal": "User:a", "clusters": ["east"], "resource": "topic", "names": ["orders"], "operations": ["read"],
        "permission": "allow",
    }  # fmt: skip
    values: Mapping[str, Key] = {
        "role": Key([writes], [reads], at="access"), "principal": Key("User:a", "User:b", reads),
        "clusters": Key(["east"], ["west"], reads), "hosts": Key(["10.0.0.1"], ["10.0.0.2"], reads),
        "topics": Key(["orders"], ["pay"], reads), "groups": Key(["a"], ["b"], reads),
        "transactional_ids": Key(["a"], ["b"], writes), "reads": Key(["orders"], ["pay"], streams),
        "writes": Key(["orders"], ["pay"], streams), "application_id": Key("a", "b", streams),
        "flows": Key(["east-to-west"], [], mirror), "resource": Key("topic", "group", raw),
        "names": Key(["orders"], ["pay"], raw), "operations": Key(["read"], ["write"], raw),
        "permission": Key("allow", "deny", raw), "absent": Key(True, False, raw),
    }  # fmt: skip
    yield "access", Key([reads], [raw])
    for name, key in values.items():
        yield f"access[].{name}", key
        if name in ("topics", "groups", "transactional_ids", "reads", "writes", "names"):
            yield f"access[].{name}[].prefix", Key("p.", "q.", {**key.beside, name: [{"prefix": "o."}]})


def _of_quotas() -> Iterator[tuple[str, Key]]:
    limited = {"clusters": ["east"], "user": "a", "consumer_byte_rate": "1MiB"}
    by_ip = {"clusters": ["east"], "ip": "10.0.0.1", "connection_creation_rate": 5}
    values: Mapping[str, Key] = {
        "clusters": Key(["east"], ["west"], limited), "user": Key("a", "b", limited),
        "client_id": Key("a", "b", limited),
        "ip": Key("10.0.0.1", "10.0.0.2", by_ip), "producer_byte_rate": Key("1MiB", "2MiB", limited),
        "consumer_byte_rate": Key("1MiB", "2MiB", limited), "request_percentage": Key(10, 20, limited),
        "controller_mutation_rate": Key(10, 20, limited), "connection_creation_rate": Key(10, 20, by_ip),
        "remove": Key(["producer_byte_rate"], ["request_percentage"], limited),
        "absent": Key([limited], [{"clusters": ["east"], "user": "a", "absent": True}], at="quotas"),
    }  # fmt: skip
    yield "quotas", Key([limited], [by_ip])
    for name, key in values.items():
        yield f"quotas[].{name}", key
        if name in ("user", "client_id", "ip"):  # its one value; a name in its place is the edit
            yield f"quotas[].{name}.default", Key({"default": True}, key.one, key.beside, f"quotas[].{name}")


def _of_users() -> Iterator[tuple[str, Key]]:
    user = {
        "clusters": ["east"], "name": "a", "version": 1, "mechanisms": ["SCRAM-SHA-512"], "password": "${env:SVC}",
        "iterations": 4096,
    }  # fmt: skip
    yield "users", Key([user], [{**user, "name": "b"}])
    values: Mapping[str, Key] = {
        "clusters": Key(["east"], ["west"], user), "name": Key("a", "b", user), "version": Key(1, 2, user),
        "mechanisms": Key(["SCRAM-SHA-512"], ["SCRAM-SHA-256"], user), "iterations": Key(4096, 8192, user),
        "password": Key("${env:SVC}", "${env:OTHER}", user), "take_over": Key(True, False, user),
        "absent": Key([user], [{"clusters": ["east"], "name": "a", "absent": True}], at="users"),
    }  # fmt: skip
    for name, key in values.items():
        yield f"users[].{name}", key


def _of_the_rest() -> Iterator[tuple[str, Key]]:
    cluster = "clusters.*"
    for name, key in {
        "bootstrap_servers": Key(["east:9092"], ["other:9092"]),
        "cluster_id": Key("AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBA"), "region": Key("eu", "asia"),
        "service": Key("msk-serverless", "event-hubs"),
        "internal_topics": Key({"prefix": "a."}, {"prefix": "b."}),
        "internal_topics.prefix": Key("a.", "b."),
        "internal_topics.configs": Key({"segment.bytes": "1MiB"}, {"segment.bytes": "2MiB"}),
        "client": Key({"client.id": "a"}, {"client.id": "b"}),
        "principals": Key({"plan": {"client.id": "a"}}, {"apply": {"client.id": "a"}}),
        **{f"principals.{who.value}": Key({"client.id": "a"}, {"client.id": "b"}) for who in Principal},
        "defaults": Key({"partitions": 3}, {"partitions": 4}), "prune": Key({"topics": ["x.*"]}, {"topics": ["y.*"]}),
        "prune.topics": Key(["x.*"], ["y.*"]),
        "reassignment": Key({"partitions_in_flight": 2}, {"partitions_in_flight": 3}),
        "reassignment.throttle_bytes_per_second": Key("5MiB", "6MiB"),
        "reassignment.bytes_in_flight": Key("5MiB", "6MiB"), "reassignment.partitions_in_flight": Key(2, 3),
    }.items():  # fmt: skip
        yield f"{cluster}.{name}", key
    yield from _of_layer(f"{cluster}.defaults")
    yield from _of_layer("defaults")
    yield from _of_layer("classes.*")
    yield from _of_layer("topics.*")
    yield "defaults", Key({"partitions": 3}, {"partitions": 4})
    yield "topics.*.clusters", Key(["east"], ["west"])
    yield "topics.*.class", Key("logs", "more")
    yield "topics.*.labels", Key({"a": "b"}, {"a": "c"})
    more: Mapping[str, Mapping[str, Any]] = {
        "clusters": {"new": {"bootstrap_servers": ["new:9092"]}}, "topics": {"new": {"clusters": ["west"]}},
        "flows": {"back": {"source": "west", "target": "east", "topics": ["other"]}},
        "mirrors": {"west": {"parallelism": 2}}, "classes": {"new": {"partitions": 4}},
    }  # fmt: skip
    for section in NAMES:
        there = BASE.get(section, {"west": {"parallelism": 3}})
        yield section, Key(there, {**there, **more[section]})
    for path, key in {
        "protected": Key(["a"], ["b"]), "shrink_limit": Key({"percent": 40}, {"percent": 50}),
        "shrink_limit.percent": Key(40, 50), "shrink_limit.least": Key(10, 20),
        "webhooks": Key([{"url": "${env:A}"}], [{"url": "${env:B}"}]),
        "webhooks[].url": Key("${env:A}", "${env:B}"),
        "webhooks[].format": Key("json", "slack", {"url": "${env:A}"}),
        "webhooks[].events": Key(["apply"], ["drift"], {"url": "${env:A}"}),
        "docs_url": Key("https://a.example.org/", "https://b.example.org/"),
        "audit": Key({"topic": "a"}, {"topic": "b"}), "audit.topic": Key("a", "b"),
        "audit.cluster": Key("east", "west", {"topic": "a"}),
        "moved": Key([{"flow": "east-to-west", "from": "old"}], [{"flow": "east-to-west", "from": "older"}]),
        **dict.fromkeys(
            ("moved[].flow", "moved[].environment"),
            Key([{"flow": "east-to-west", "from": "old"}], [{"environment": "shop", "from": "old"}], at="moved"),
        ),
        "moved[].topic": Key([{"topic": "orders", "from": "old"}], [{"topic": "pay", "from": "old"}], at="moved"),
        "moved[].from": Key("old", "older", {"environment": "shop"}),
    }.items():  # fmt: skip
        yield path, key
    waves = [{"name": "one", "clusters": ["east"]}, {"name": "two", "clusters": ["west", "spare"]}]
    yield "rollout", Key({"waves": waves}, {"waves": waves[::-1]})
    yield "rollout.waves", Key(waves, waves[::-1])
    for name, key in {
        "soak": Key("5m", "6m"), "gates": Key({"mirrors": "healthy"}, {"mirrors": "running"}),
        "gates.offline_partitions": Key(1, 2), "gates.under_replicated_partitions": Key(1, 2),
        "gates.lag": Key("5m", "6m"), "gates.mirrors": Key("running", "ignored"), "gates.wait": Key("5m", "6m"),
    }.items():  # fmt: skip
        yield f"rollout.{name}", replace(key, beside={"waves": waves})
    wave = {"name": "one", "clusters": ["east", "west", "spare"]}
    yield "rollout.waves[].name", Key("one", "two", wave)
    yield "rollout.waves[].clusters", Key(waves, [waves[1], {"name": "one", "regions": ["eu"]}], at="rollout.waves")
    regions = [{"name": "one", "regions": ["eu"]}, {"name": "two", "regions": ["us"]}]
    yield "rollout.waves[].regions", Key(regions, [{"name": "one", "regions": ["eu", "us"]}], at="rollout.waves")
    yield "rollout.waves[].soak", Key("5m", "6m", wave)
    for step in ("before", "switch", "after"):
        at, command = f"cutover.hooks.{step}", {"command": ["/opt/hooks/one"]}
        yield at, Key(command, {"command": ["/opt/hooks/two"]})
        yield f"{at}.command", Key(["/opt/hooks/one"], ["/opt/hooks/one", "west"])
        yield f"{at}.timeout", Key({**command, "timeout": "5s"}, {**command, "timeout": "6s"}, at=at)
        call, file = {"url": "https://dns.example.net/a"}, {"path": "/etc/address", "text": "east"}
        yield f"{at}.http", Key(call, {**call, "body": "west"})
        for name, values in {
            "url": ("https://dns.example.net/b", "https://dns.example.net/c"), "method": ("PUT", "PATCH"),
            "headers": ({"X": "a"}, {"X": "b"}), "body": ("a", "b"), "status": (201, 204),
            "ca": ("/etc/a.pem", "/etc/b.pem"),
        }.items():  # fmt: skip
            first, second = ({"http": {**call, name: value}} for value in values)
            yield f"{at}.http.{name}", Key(first, second, at=at)
        yield f"{at}.file", Key(file, {**file, "text": "west"})
        yield f"{at}.file.path", Key({"file": file}, {"file": {**file, "path": "/etc/other"}}, at=at)
        yield f"{at}.file.text", Key({"file": file}, {"file": {**file, "text": "west"}}, at=at)
    yield "cutover.hooks", Key({"switch": command}, {"after": command})
    yield "cutover", Key({"hooks": {"switch": command}}, {"hooks": {"after": command}})
    gone = {
        "topic": "gone", "cluster": "east", "topic_id": "A" * 22, "reason": "old", "expires": "2099-01-01",
    }  # fmt: skip
    yield "deletions", Key([gone], [{**gone, "topic": "other"}])
    for name, other in {"topic": "other", "cluster": "west", "topic_id": "B" * 21 + "A", "reason": "why",
                        "expires": "2099-02-01"}.items():  # fmt: skip
        yield f"deletions[].{name}", Key(gone[name], other, gone)


KEYS: Mapping[str, Key] = dict(
    pair
    for part in (_of_where, _of_flows, _of_mirrors, _of_access, _of_quotas, _of_users, _of_the_rest)
    for pair in part()
)


def _schema_keys(node: Any, path: str = "", within: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths of keys as in ``KEYS``; a definition within itself is one."""
    while isinstance(node, dict) and "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name in within and name in ("where", "tests"):
            return
        within, node = (*within, name), {**node, **SCHEMA["$defs"][name]}
        del node["$ref"]
    if not isinstance(node, dict):
        return
    for either in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _schema_keys(either, path, within)
    for key, inner in node.get("properties", {}).items():
        yield (below := f"{path}.{key}".lstrip("."))
        yield from _schema_keys(inner, below, within)
    if "items" in node:
        yield from _schema_keys(node["items"], f"{path}[]", within)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _schema_keys(node["additionalProperties"], f"{path}.*", within)


def test_every_key_of_the_schema_is_tried() -> None:
    keys = set(_schema_keys(SCHEMA))
    assert sorted(keys - KEYS.keys()) == []
    assert sorted(KEYS.keys() - keys) == []


def _steps(path: str) -> list[str | int]:
    names: list[str | int] = []
    dotted = path.replace("retention.", "retention\0").replace("[]", ".[]")
    for word in dotted.split("."):
        if word == "*":
            names.append(NAMES[str(names[0])])
        else:
            names.append(0 if word == "[]" else word.replace("\0", "."))
    return names


def _merged(into: Any, more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merged(into[key], value)
        else:
            into[key] = deepcopy(value)


def _environment(path: str, key: Key, value: Any) -> str:
    """``value`` None: without the key."""
    document, steps = deepcopy(dict(BASE)), _steps(path)
    if path == "topics.*.class":
        document["classes"]["more"] = {"configs": {"segment.ms": "2h"}}
    at: Any = document
    entry = next((n for n, step in enumerate(steps) if step == 0), 1 if steps[0] in NAMES else 0)
    for depth, (step, following) in enumerate(zip(steps, [*steps[1:], ""], strict=True)):
        if depth == len(steps) - 1:
            break
        if step == 0 and not at:
            at.append({})
        elif step != 0:
            at.setdefault(step, [] if following == 0 else {})
            if following != 0 and not isinstance(at[step], dict):
                at[step] = {}
            if following == 0 and not isinstance(at[step], list):
                at[step] = []
        at = at[step]
        if depth == entry:
            _merged(at, key.beside)
    if value is None:
        at.pop(steps[-1], None)
    else:
        at[steps[-1]] = value
    return json.dumps(document)


_loaded = cache(lambda text: load({"1.yaml": text}, "shop"))


_REPR = re.compile(r"(before|after)='[^']*\b[A-Z][A-Za-z]+\(")


@pytest.mark.parametrize("path", sorted(KEYS))
def test_an_edit_of_any_key_has_a_change_or_a_headline(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC", "a")
    monkeypatch.setenv("OTHER", "b")
    key = KEYS[path]
    tried, problems, silent = 0, [], []
    for one, two in ((None, key.one), (key.one, key.two), (key.two, None)):
        try:
            old, new = (_loaded(_environment(key.at or path, key, value)) for value in (one, two))
        except TopologyError as error:
            problems += [f"{one} -> {two}: {each}" for each in error.problems]
            continue
        seen = World({name: FakeCluster(name, 2) for name in ("east", "west", "spare", "new")})
        try:
            seen.apply(old)
        except BlockedError as error:  # it cannot have been applied, so there is no such edit
            problems.append(str(error))
            continue
        tried += 1
        looked = seen.look(new)
        live = replace(looked, mirrors={name: seen.runner.observe(name) for name in (*old.mirrors, *new.mirrors)})
        made, compared = plan(new, live), compare(old, new)
        effectless = without_effect(compared, EditAndPlan(old, new, made, live))
        said = lead(effectless, replace(compared, same_text=False))
        edited = sum(max(1, len(item.fields)) for item in compared.items)
        quiet = [each for each in effectless if not each.headline]
        if made.changes and len(quiet) == edited:  # nothing else was edited, so the changes are its effect
            silent.append(f"{one} -> {two}: {[each.id for each in made.changes]}, said to do nothing: {said}")
        if reprs := [text for item in compared.items for text in map(str, item.fields) if _REPR.search(text)]:
            silent.append(f"{one} -> {two} shows Python: {reprs}")
        if not (made.changes or made.refused or made.unknown or said):
            silent.append(f"{one} -> {two}: {compared.items}")
        elif None not in (one, two) and compared.empty and not made.changes:
            silent.append(f"{one} -> {two} is no edit: {said}")
    assert bool(tried) is (path not in ALWAYS_REFUSED), problems
    assert not silent


WRONG = ("null", "[null, {a: 1}]", "1e400", '"\\e[2J"')
AT_NIGHT = ("{east: null}", "2001-01-01", "9" * 400)
OF_ANOTHER_LINE = {"flows.*.naming.separator"}
"""A name that is too long by it is a problem of the flow."""


def _problems(text: str) -> tuple[Problem, ...]:
    try:
        load({"1.yaml": text}, "shop")
    except TopologyError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("values", [WRONG, pytest.param(AT_NIGHT, marks=pytest.mark.long)], ids=["day", "night"])
@pytest.mark.parametrize("path", sorted(KEYS.keys() - ALWAYS_REFUSED))
def test_whatever_a_key_holds_is_loaded_or_named_with_its_line(path: str, values: tuple[str, ...]) -> None:
    key = KEYS[path]
    text = json.dumps(json.loads(_environment(key.at or path, key, "@@")), indent=1)
    line = text[: text.index('"@@"')].count("\n") + 1
    for wrong in values:
        problems = _problems(text.replace('"@@"', wrong, 1))
        assert all(problem.where.line > 0 for problem in problems), (wrong, problems)
        here = any(problem.where.line == line for problem in problems) or path in OF_ANOTHER_LINE
        assert here or not problems, (wrong, problems)

"""Slips of a first day: each is told with the very text to write."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError

TEXT = """clusters:
  east: {bootstrap_servers: [e:9092]}
  west: {bootstrap_servers: [w:9092]}
topics:
  orders: {clusters: [east], partitions: 4, configs: {retention.ms: 7d}}
flows:
  all: {source: east, target: west, topics: ['orders.*']}
"""


def problems(before: str, after: str) -> list[str]:
    assert before in TEXT
    try:
        load({"t.yaml": TEXT.replace(before, after)}, "env")
    except TopologyError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("before", "after", "todo"),
    [
        ("[w:9092]", "'w:9092,x:9092'", "Write a list: [w:9092, x:9092]."),
        ("[w:9092]", "['w:9092,x:9092']", "Write each address as one of the list: [w:9092, x:9092]."),
        ("[w:9092]", "['SASL_SSL://w:9092']", "Write w:9092; security.protocol says how to connect."),
        ("[w:9092]", "['w:9092 ']", "Write w:9092."),
        ("[w:9092]", "[w]", "Write host:port, such as w:9092."),
        ("[w:9092]", "['${WEST}']", "references are resolved in client settings only."),
        ("7d", "7 days", "days is not a unit, d is"),
        ("7d", "7D", "D is not a unit, d is"),
        ("7d", "7d12h", "one number with one unit"),
        ("7d", "forever", "or unlimited."),
        ("retention.ms: 7d", "retention.bytes: 1G", "G is not a unit, GiB is"),
        ("retention.ms: 7d", "retention.bytes: 1gib", "gib is not a unit, GiB is"),
        ("retention.ms: 7d", "retention.hours: 24", "Write retention.ms, such as retention.ms: 7d."),
        ("retention.ms: 7d", "log.retention.ms: 7d", "Write retention.ms, such as retention.ms: 7d."),
        ("retention.ms: 7d", "replication.factor: 3", "Write replication_factor: beside configs."),
        ("retention.ms: 7d", "retention: {ms: 7d}", "Write the whole name with dots, retention.ms: VALUE."),
        ("retention.ms: 7d", "cleanup.policy: compact,delete", "write cleanup.policy: [compact, delete] for a list."),
        ("partitions: 4", "replicas: 3", "Perhaps replication_factor is meant."),
        ("source: east", "from: east", "Perhaps source is meant."),
        ("['orders.*']", "'orders,payments'", "Write a list: [orders, payments]."),
        ("['orders.*']", "['(?i)orders', b]", "Write flags for a part: (?i:orders)."),
        ("  all: {source", "  - {source", "Write each flow below its name, NAME: and its fields, without a dash."),
        ("flows:\n", "access: {a: b}\nflows:\n", "Write a list: each with a dash, - and its fields."),
    ],
)
def test_it_says_what_to_write(before: str, after: str, todo: str) -> None:
    said = problems(before, after)
    assert any(todo in one for one in said), said


@pytest.mark.parametrize(
    ("before", "after", "config", "value"),
    [
        ("retention.ms: 7d", "retention.ms: unlimited", "retention.ms", "-1"),
        ("retention.ms: 7d", "retention.bytes: unlimited", "retention.bytes", "-1"),
        ("retention.ms: 7d", "message.timestamp.before.max.ms: max", "message.timestamp.before.max.ms", str(2**63 - 1)),
        ("retention.ms: 7d", "segment.ms: max", "segment.ms", str(2**63 - 1)),
    ],
)
def test_a_word_that_a_plan_prints_for_a_number_is_taken(before: str, after: str, config: str, value: str) -> None:
    topology = load({"t.yaml": TEXT.replace(before, after)}, "env")
    assert topology.topics["orders"].configs[config] == value


def test_a_word_is_taken_only_where_a_plan_prints_it() -> None:
    assert problems("retention.ms: 7d", "segment.ms: unlimited")
    assert problems("retention.ms: 7d", "min.insync.replicas: max") == []  # a broker is asked, as of each other text


@pytest.mark.parametrize("field", ["topics", "exclude_topics", "groups.include", "groups.exclude"])
def test_flags_at_the_beginning_of_the_only_expression_are_those_of_a_part(field: str) -> None:
    """A list is joined to one expression; ``(?i)a`` alone matches what ``(?i:a)`` does."""
    flow = {
        "topics": "topics: ['(?i)Orders.*']",
        "exclude_topics": "topics: ['orders.*'], exclude_topics: ['(?i)Orders.x']",
        "groups.include": "topics: ['orders.*'], groups: {include: ['(?i)Orders.*']}",
        "groups.exclude": "topics: ['orders.*'], groups: {exclude: ['(?i)Orders.*']}",
    }[field]
    loaded = load({"t.yaml": TEXT.replace("topics: ['orders.*']", flow)}, "env").flows["all"]
    lists = (loaded.topics, loaded.exclude_topics, loaded.groups.include, loaded.groups.exclude)
    assert any(texts and texts[0].startswith("(?i:Orders.") for texts in lists)


@pytest.mark.parametrize("written", ["AbCdEfGhIjKlMnOpQr-t_v", "AbCdEfGhIjKlMnOpQr+t/v", "AbCdEfGhIjKlMnOpQr+t/v=="])
def test_the_id_of_a_topic_is_taken_in_both_alphabets_of_base64(written: str) -> None:
    stone = f"{{topic: old, cluster: east, topic_id: {written}, reason: moved, expires: 2999-01-31}}"
    [tombstone] = load({"t.yaml": f"{TEXT}deletions: [{stone}]\n"}, "env").deletions
    assert tombstone.topic_id == "AbCdEfGhIjKlMnOpQr-t_v"

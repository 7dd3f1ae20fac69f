"""Slips of a first day: each is reported with the exact text to write."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.schemas import schema

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
        ("[w:9092]", "['w:09092']", "Write w:9092."),
        ("[w:9092]", "[w]", "Write host:port, such as w:9092."),
        ("[w:9092]", "['me:pw@w:1']", 'not the text "...@w:1". Nothing else has a meaning here. Write w:1.'),
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
        ("partitions: 4", "replicas: 3", "Perhaps you mean replication_factor."),
        ("source: east", "from: east", "Perhaps you mean source."),
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


FLOW = "  all: {source: east, target: west, topics: ['orders.*']}\n"
LISTS = {
    "topics": FLOW.replace("['orders.*']", "[X]"),
    "exclude_topics": FLOW.replace("}", ", exclude_topics: [X]}"),
    "sync_topic_configs.exclude": FLOW.replace("}", ", sync_topic_configs: {exclude: [X]}}"),
    "groups.include": FLOW.replace("}", ", groups: {include: [X]}}"),
    "groups.exclude": FLOW.replace("}", ", groups: {include: [g.*], exclude: [X]}}"),
    "prune.topics": FLOW,
}
"""Each is joined to one expression."""
ALONE = {
    "protected": FLOW + "protected: [X]\n",
    "where.key.matches": FLOW.replace("}", ", where: {key: {matches: X}}}"),
    "where.header.matches": FLOW.replace("}", ", where: {any: [{header: {name: h, matches: X}}]}}"),
}
"""Each of its own."""


def holding(field: str, *expressions: str) -> str:
    """The environment with ``expressions`` in ``field``."""
    text = TEXT.replace(FLOW, (LISTS | ALONE)[field])
    if field == "prune.topics":
        text = text.replace("[w:9092]", "[w:9092], prune: {topics: [X]}")
    return text.replace("X", ", ".join(f"'{each}'" for each in expressions))


def places_of_expressions(of: object) -> list[str]:
    """Fields of the environment's schema whose values are regular expressions."""
    match of:
        case {"title": "a regular expression"} | {"$ref": "#/$defs/patterns" | "#/$defs/bytes_pattern"}:
            return [""]
        case dict() | list():
            inner = of.items() if isinstance(of, dict) else enumerate(of)
            return [
                f"/{name}{place}"
                for name, part in inner
                if name not in ("patterns", "bytes_pattern")
                for place in places_of_expressions(part)
            ]
    return []


def test_the_table_has_every_field_that_takes_expressions() -> None:
    places = places_of_expressions(schema("environment"))
    assert len(places) == len(LISTS) + len(ALONE), f"a field that is not in the table: {places}"


@pytest.mark.parametrize("written", ["(?i)Orders[.].*", "(?i)(?s)Orders[.].*", "(?is)Orders[.].*"])
@pytest.mark.parametrize("field", [*LISTS, *ALONE])
def test_flags_at_the_beginning_of_the_only_expression_are_those_of_a_part(field: str, written: str) -> None:
    """``(?i)a`` alone matches what ``(?i:a)`` does, and one spelling is what it is compared and handed over by."""
    letters = "i" if written == "(?i)Orders[.].*" else "is"
    loaded, wanted = (load({"t.yaml": holding(field, text)}, "env") for text in (written, f"(?{letters}:Orders[.].*)"))
    assert loaded == wanted


@pytest.mark.parametrize("field", LISTS)
def test_beside_another_such_flags_are_refused_with_what_to_write(field: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load({"t.yaml": holding(field, "(?i)Orders[.].*", "b.*")}, "env")
    [problem] = caught.value.problems
    assert problem.code == "bad-regex"
    assert f'{field}[0] is "(?i)Orders[.].*"' in str(problem)
    assert "Write flags for a part: (?i:Orders[.].*)." in str(problem)


def test_protections_are_not_joined() -> None:
    loaded = load({"t.yaml": holding("protected", "(?i)Orders[.].*", "b.*")}, "env")
    assert [protection.pattern for protection in loaded.rules.protected] == ["(?i:Orders[.].*)", "b.*"]


@pytest.mark.parametrize("written", ["AbCdEfGhIjKlMnOpQr-t_v", "AbCdEfGhIjKlMnOpQr+t/v", "AbCdEfGhIjKlMnOpQr+t/v=="])
def test_the_id_of_a_topic_is_taken_in_both_alphabets_of_base64(written: str) -> None:
    stone = f"{{topic: old, cluster: east, topic_id: {written}, reason: moved, expires: 2999-01-31}}"
    [tombstone] = load({"t.yaml": f"{TEXT}deletions: [{stone}]\n"}, "env").deletions
    assert tombstone.topic_id == "AbCdEfGhIjKlMnOpQr-t_v"

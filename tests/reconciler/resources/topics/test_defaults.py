"""Environment, class, cluster, topic: each layer wins over those before it, and both plan and explain say which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.edits.compare import compare
from reconciler.engine.explain import explain
from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.changes import CreateTopic, Risk
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.edit import Against
from reconciler.render.reports.edit import comparison_verdict
from tests.support.builders import altered, changed, world

CLUSTERS = """\
clusters:
  east: {bootstrap_servers: ["east:9092"], defaults: {replication_factor: 1, configs: {max.message.bytes: 2000000}}}
  west: {bootstrap_servers: ["west:9092"]}
"""
RULES = """\
defaults:
  partitions: 3
  replication_factor: 1
  configs: {retention.ms: 7d, max.message.bytes: 1000000}
classes:
  critical:
    partitions: 6
    configs: {retention.ms: 30d, min.insync.replicas: 1}
"""
TOPICS = """\
topics:
  plain: {clusters: [east]}
  ledger: {clusters: [east], class: critical}
  audit: {clusters: [east], class: critical, partitions: 1, configs: {retention.ms: 90d}}
flows:
  east-to-west: {source: east, target: west, topics: [plain]}
"""


def shop(*more: str) -> Topology:
    files = {"clusters.yaml": CLUSTERS, "rules.yaml": RULES, "topics.yaml": TOPICS}
    return load({**files, **dict(zip("xyz", more, strict=False))}, "e")


def values_of(subject: str) -> dict[str, tuple[str, str, str, tuple[str, ...]]]:
    [answer] = explain(shop(), subject).topics
    return {one.key: (one.wished, one.because, one.where, one.overridden) for one in answer.values}


def test_the_strongest_layer_wins_and_the_plan_names_it() -> None:
    made = changed(world().plan(shop()), CreateTopic)
    assert {ref: one.partitions for ref, one in made.items() if ref.startswith("east")} == {
        "east/plain": 3,
        "east/ledger": 6,
        "east/audit": 1,
    }
    origins = {one.key: (one.after, one.origin) for one in made["east/ledger"].configs}
    assert origins == {
        "max.message.bytes": ("2000000", "default of cluster east"),
        "min.insync.replicas": ("1", "class critical"),
        "retention.ms": ("2592000000", "class critical"),
    }
    assert {one.key: one.origin for one in made["east/plain"].configs}["retention.ms"] == "default of the environment"
    assert made["west/east.plain"].replication_factor == 1  # nothing nearer says so


def test_explain_names_the_winner_and_what_it_overrides_with_their_lines() -> None:
    told = values_of("east/audit")
    assert told["retention.ms"] == (
        "90d",
        "declared",
        "topics.yaml:4",
        ("30d by class critical, rules.yaml:6", "7d by default of the environment, rules.yaml:1"),
    )
    assert told["partitions"][3] == (
        "6 by class critical, rules.yaml:6",
        "3 by default of the environment, rules.yaml:1",
    )
    assert told["max.message.bytes"][1:] == (
        "default of cluster east",
        "clusters.yaml:2",
        ("1000000 by default of the environment, rules.yaml:1",),
    )


def test_a_remote_topic_follows_its_source_over_defaults() -> None:
    told = values_of("west/east.plain")
    assert told["retention.ms"][:2] == ("7d", "source east/plain")
    assert told["partitions"][1] == "as many as east/plain"
    assert told["replication_factor"][1] == "default of the environment, for a new topic"


def test_counts_of_a_class_are_for_new_topics_only() -> None:
    seen = world()
    seen.clusters["east"].put("ledger", 2)
    planned = seen.plan(shop())
    assert "partitions:east/ledger" not in {one.id for one in planned.changes}
    assert altered(planned, "east/ledger")["retention.ms"].origin == "class critical"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("topics: {x: {clusters: [east], class: critcal}}\n", "unknown-class"),
        ("defaults: {partitions: 4}\n", "duplicate-name"),
        ("classes: {critical: {}}\n", "duplicate-name"),
        ("classes: {gold: {partition: 1}}\n", "unknown-field"),
        ("classes: {gold: {configs: {retention.ms: 7x}}}\n", "bad-duration"),
        ("classes: {gold: {configs: {retention.ms: 9223372036854775808}}}\n", "bad-duration"),
        ("classes: {gold: {configs: {retention.bytes: -9223372036854775809}}}\n", "bad-size"),
        ("classes: {gold: {lower_retention_by: {retention.ms: 0}}}\n", "out-of-range"),
        ("classes: {gold: {lower_retention_by: {segment.ms: 1d}}}\n", "unknown-field"),
        (
            "classes: {gold: {configs: {min.insync.replicas: 2}}}\ntopics: {x: {clusters: [east], class: gold}}\n",
            "too-few-replicas",
        ),
        ("protected: ['(']\n", "bad-regex"),
        ("protected: ['ledger,audit']\n", "regex-never-matches"),
        ("protected: [a, a]\n", "duplicate-name"),
        ("shrink_limit: {percent: 120}\n", "out-of-range"),
        ("shrink_limit: 20\n", "wrong-type"),
    ],
)
def test_a_wrong_rule_is_reported(text: str, code: str) -> None:
    with pytest.raises(TopologyError) as caught:
        shop(text)
    assert code in {one.code for one in caught.value.problems}, str(caught.value)


def test_an_edit_of_a_rule_says_whom_it_reaches() -> None:
    after = load({"clusters.yaml": CLUSTERS, "rules.yaml": RULES.replace("30d", "20d"), "topics.yaml": TOPICS}, "e")
    [item] = [one for one in compare(shop(), after).items if one.kind == "class"]
    assert item.name == "critical"
    assert item.fields[0].means == (
        "retention.ms 30d -> 20d: records beyond the new limit are deleted at once; for the 2 topics of the class,"
        " where nothing stronger says otherwise"
    )
    assert (item.fields[0].risk, item.fields[0].irreversible) == (Risk.HIGH, True)
    assert "changes 1 class;" in comparison_verdict(compare(shop(), after), Against("main", "4f0c2d1e9ab3"))


@pytest.mark.parametrize("layer", ["environment", "cluster", "class"])
def test_a_shorter_retention_is_as_dangerous_in_a_layer_as_on_a_topic(layer: str) -> None:
    def of(retention: str) -> Topology:
        kept = f"configs: {{retention.ms: {retention}}}"
        text = {
            "environment": f"clusters: {{east: {{bootstrap_servers: ['e:1']}}}}\ndefaults: {{{kept}}}\n",
            "cluster": f"clusters: {{east: {{bootstrap_servers: ['e:1'], defaults: {{{kept}}}}}}}\n",
            "class": f"clusters: {{east: {{bootstrap_servers: ['e:1']}}}}\nclasses: {{gold: {{{kept}}}}}\n",
        }[layer]
        return load({"e.yaml": f"{text}topics: {{x: {{clusters: [east]}}}}\n"}, "e")

    down, up = compare(of("7d"), of("1d")), compare(of("1d"), of("7d"))
    [lower] = [field for item in down.items for field in item.fields]
    [raised] = [field for item in up.items for field in item.fields]
    assert (lower.risk, lower.irreversible) == (Risk.HIGH, True)
    assert lower.path.endswith("configs.retention.ms")
    assert (raised.risk, raised.irreversible) == (Risk.LOW, False)
    assert "1 HIGH risk" in comparison_verdict(down, Against("main", "4f0c2d1e9ab3"))


def test_several_classes_are_no_classs() -> None:
    def of(retention: str) -> Topology:
        classes = ", ".join(f"{name}: {{configs: {{retention.ms: {retention}}}}}" for name in ("gold", "tin"))
        return load({"e.yaml": f"clusters: {{e: {{bootstrap_servers: ['e:1']}}}}\nclasses: {{{classes}}}\n"}, "e")

    assert "changes 2 classes" in comparison_verdict(compare(of("1d"), of("2d")), Against("main", "4f0c2d1e9ab3"))


@given(st.lists(st.sampled_from((None, "1000", "2000", "3000")), min_size=4, max_size=4))
def test_only_the_strongest_layer_that_speaks_counts(values: list[str | None]) -> None:
    """Environment, class, cluster, topic, in this order of strength."""

    def layer(value: str | None) -> str:
        return f"{{configs: {{retention.ms: {value}}}}}" if value else "{}"

    environment, of_class, of_cluster, own = values
    text = (
        f'clusters: {{east: {{bootstrap_servers: ["e:1"], defaults: {layer(of_cluster)}}}}}\n'
        f"defaults: {layer(environment)}\nclasses: {{gold: {layer(of_class)}}}\n"
        f"topics: {{x: {{clusters: [east], class: gold, configs: {{{f'retention.ms: {own}' if own else ''}}}}}}}\n"
    )
    [create] = changed(world("east").plan(load({"a.yaml": text}, "e")), CreateTopic).values()
    said = [value for value in reversed(values) if value]
    assert [one.after for one in create.configs] == said[:1]

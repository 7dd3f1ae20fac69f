"""From YAML texts to values: each field, and every problem of every file at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.environment.load import load
from reconciler.environment.yaml.locations import Place, Places, unknown_clusters
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.read import read
from reconciler.errors import Problem, TopologyError, Where
from reconciler.model.environment.flow_settings import MM2_CONFIG_EXCLUDE, ConfigSync, Delivery, Groups, Isolation
from reconciler.model.environment.topology import Principal, Topic, TopicDefaults, Topology
from reconciler.replication.handover import Naming, Start

CLUSTERS = """
clusters:
  east: {bootstrap_servers: [east.example.net:9092]}
  west: {bootstrap_servers: ["[2001:db8::1]:9092", 10.0.0.1:9092]}
"""


def test_a_slip_in_each_of_many_topics_walks_over_them_once() -> None:
    """A cluster that was renamed leaves one in thousands of topics."""

    class Counted(dict[tuple[str, str], Place]):
        walks = 0

        def __iter__(self) -> Iterator[tuple[str, str]]:
            self.walks += 1
            return super().__iter__()

    document = read("1.yaml", "topics: {a: {clusters: [eats]}}")
    assert isinstance(document.root, YamlMapping)
    entries = Counted({("topics", "a"): Place(document, document.root.entries["topics"])})
    places = Places(entries)
    for _ in range(100):
        [problem] = unknown_clusters(places, ["east"], Topic("a", ("eats",)), "topic a")
        assert problem.todo == "Perhaps you mean east"
    assert entries.walks <= 1


def test_a_number_of_thousands_of_digits_is_only_too_large() -> None:
    least = f"defaults: {{replication_factor: 2, configs: {{min.insync.replicas: '{'9' * 5_000}'}}}}"
    [problem] = _problems(c=f"clusters: {{east: {{bootstrap_servers: ['e:1'], {least}}}}}")
    assert problem.code == "too-few-replicas"


def test_a_value_that_is_missing_is_one_problem() -> None:
    topic = "  a: {clusters: [east], configs: {retention.ms: null}}"
    text = f"clusters: {{east: {{bootstrap_servers: ['e:1']}}}}\ntopics:\n{topic}"
    with pytest.raises(TopologyError) as caught:
        load({"1.yaml": text}, "shop")
    assert [problem.code for problem in caught.value.problems] == ["missing-value"]


def _load(**parts: str) -> Topology:
    return load({f"{name}.yaml": text for name, text in parts.items()}, "test")


def _problems(**parts: str) -> tuple[Problem, ...]:
    with pytest.raises(TopologyError) as caught:
        _load(**parts)
    return caught.value.problems


def _places(**parts: str) -> list[tuple[str, str, str]]:
    """Code, file and line of each problem, and the word that stands there."""
    found = []
    for problem in _problems(**parts):
        line = parts[problem.where.file.removesuffix(".yaml")].split("\n")[problem.where.line - 1]
        word = re.split(r"[\s,:}]", line[problem.where.column - 1 :])[0]
        found.append((problem.code, f"{problem.where.file}:{problem.where.line}", word))
    return found


def test_a_cluster_with_everything() -> None:
    text = """
clusters:
  east:
    bootstrap_servers: [e1.example.net:9093, e2.example.net:9093]
    cluster_id: 5L6g3nShT-eMCtK--X86sw
    region: us-east
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      socket.timeout.ms: 30s
      enable.ssl.certificate.verification: True
    principals:
      plan: {sasl.username: planner, sasl.password: "${env:PLAN_PASSWORD}"}
      mirror: {sasl.username: mirror, sasl.password: "${file:/run/secrets/mirror}"}
    defaults: {partitions: 6, replication_factor: 3, configs: {min.insync.replicas: 2}}
"""
    east = _load(a=text).clusters["east"]
    assert east.bootstrap_servers == ("e1.example.net:9093", "e2.example.net:9093")
    assert (east.cluster_id, east.region) == ("5L6g3nShT-eMCtK--X86sw", "us-east")
    assert east.client == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "socket.timeout.ms": "30000",
        "enable.ssl.certificate.verification": "true",
    }
    assert east.client_for(Principal.PLAN)["sasl.password"] == "${env:PLAN_PASSWORD}"
    assert east.client_for(Principal.APPLY) == east.client
    assert east.defaults == TopicDefaults(6, 3, {"min.insync.replicas": "2"})
    assert (east.where.file, east.where.line, east.where.column) == ("a.yaml", 3, 3)


def test_config_values_become_what_kafka_stores() -> None:
    text = """
topics:
  orders:
    clusters: [east]
    configs:
      retention.ms: 7d
      retention.bytes: 1GiB
      segment.bytes: 1048576
      local.retention.ms: -2
      min.cleanable.dirty.ratio: 0.10
      preallocate: TRUE
      cleanup.policy: [compact, delete]
      compression.type: "zstd"
      confluent.tier.enable: false
    labels: {owner: payments, cost_center: 0.10, gold: true}
"""
    orders = _load(c=CLUSTERS, t=text).topics["orders"]
    assert orders.configs == {
        "retention.ms": "604800000",
        "retention.bytes": "1073741824",
        "segment.bytes": "1048576",
        "local.retention.ms": "-2",
        "min.cleanable.dirty.ratio": "0.10",
        "preallocate": "true",
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "confluent.tier.enable": "false",
    }
    assert orders.labels == {"owner": "payments", "cost_center": "0.10", "gold": "true"}


def test_a_flow_with_everything() -> None:
    text = r"""
flows:
  east-to-west:
    source: east
    target: west
    topics: ["orders", 'payments\..*']
    exclude_topics: ['.*\.scratch']
    naming: {policy: identity, separator: "-"}
    replication_factor: 3
    delivery: at_least_once
    isolation: read_uncommitted
    lanes: 16
    start: {timestamp: 2026-01-01T00:00:00+01:00}
    sync_topic_configs: {enabled: false, exclude: ['segment\..*'], use_defaults_from: source}
    groups: {include: [billing], exclude: ['tmp-.*'], sync_offsets: true}
    labels: {owner: platform}
"""
    flow = _load(c=CLUSTERS, f=text).flows["east-to-west"]
    assert (flow.source, flow.target) == ("east", "west")
    assert flow.topics == ("orders", r"payments\..*")
    assert flow.exclude_topics == (r".*\.scratch",)
    assert flow.naming == Naming("identity", "-")
    assert (flow.delivery, flow.isolation) == (Delivery.AT_LEAST_ONCE, Isolation.READ_UNCOMMITTED)
    assert (flow.replication_factor, flow.lanes) == (3, 16)
    assert flow.start == Start("timestamp", 1_767_222_000_000)
    assert flow.configs == ConfigSync(False, (r"segment\..*",), "source")
    assert flow.groups == Groups(("billing",), ("tmp-.*",), True)


def test_a_flow_with_nothing_has_the_defaults_of_the_noun() -> None:
    flow = _load(c=CLUSTERS, f="flows: {f: {source: east, target: west, topics: [a]}}").flows["f"]
    assert (flow.naming, flow.start, flow.lanes) == (Naming(), Start(), 2)
    assert (flow.delivery, flow.isolation) == (Delivery.EXACTLY_ONCE, Isolation.READ_COMMITTED)
    assert (flow.configs, flow.groups) == (ConfigSync(True, MM2_CONFIG_EXCLUDE, "target"), Groups())


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("earliest", Start("earliest")),
        ("latest", Start("latest")),
        ("{timestamp: 1767225600000}", Start("timestamp", 1_767_225_600_000)),
        ("{timestamp: 2026-01-01T00:00:00Z}", Start("timestamp", 1_767_225_600_000)),
        ("{timestamp: 2026-01-01T01:00:00.001+01:00}", Start("timestamp", 1_767_225_600_001)),
    ],
)
def test_where_a_flow_starts(written: str, start: Start) -> None:
    text = f"flows: {{f: {{source: east, target: west, topics: [a], start: {written}}}}}"
    assert _load(c=CLUSTERS, f=text).flows["f"].start == start


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("0001-01-01T00:00:00+01:00", "before 1970"),
        ("1969-12-31T23:59:59.999Z", "before 1970"),  # -1 asks a broker for the end
        ("2026-01-01T00:00:00", "Without a zone"),
        ("yesterday", "It is not a time"),
    ],
)
def test_a_time_that_none_can_start_at(written: str, why: str) -> None:
    for field in ("start: {timestamp: %s}", "where: {timestamp: {from: %s}}"):
        text = f"flows: {{f: {{source: east, target: west, topics: [a], {field % repr(written)}}}}}"
        [problem] = _problems(c=CLUSTERS, f=text)
        assert problem.code == "bad-timestamp"
        assert why in problem.why


def test_each_target_has_a_mirror_and_mirrors_may_share_the_flows() -> None:
    flows = """
flows:
  one: {source: east, target: west, topics: [a]}
  two: {source: east, target: west, topics: [b]}
  back: {source: west, target: east, topics: [c]}
"""
    mirrors = _load(c=CLUSTERS, f=flows).mirrors
    assert {name: mirror.flows for name, mirror in mirrors.items()} == {"west": ("one", "two"), "east": ("back",)}
    written = """
mirrors:
  slow: {flows: [two], master: yarn, parallelism: 8, spark_conf: {spark.ui.enabled: false}, refresh_interval: 1m}
  west: {status_interval: 500ms, metrics_port: 9404, metrics_host: 0.0.0.0}
"""
    mirrors = _load(c=CLUSTERS, f=flows, m=written).mirrors
    assert {name: mirror.flows for name, mirror in mirrors.items()} == {
        "west": ("one",),
        "slow": ("two",),
        "east": ("back",),
    }
    slow = mirrors["slow"]
    assert (slow.master, slow.parallelism, slow.spark_conf) == ("yarn", 8, {"spark.ui.enabled": "false"})
    assert (slow.refresh_interval_ms, slow.status_interval_ms) == (60_000, 2_000)
    assert (mirrors["west"].refresh_interval_ms, mirrors["west"].status_interval_ms) == (5_000, 500)
    assert (mirrors["west"].metrics_port, mirrors["west"].metrics_host) == (9404, "0.0.0.0")
    assert (slow.metrics_port, slow.metrics_host) == (0, "127.0.0.1")


def test_anchors_and_merge_keys() -> None:
    text = """
x-standard: &standard {partitions: 12, configs: {retention.ms: 7d}}
topics:
  a: {<<: *standard, clusters: [east]}
  b: {<<: *standard, clusters: [east], partitions: 3}
"""
    topics = _load(c=CLUSTERS, t=text).topics
    assert (topics["a"].partitions, topics["b"].partitions) == (12, 3)
    assert topics["a"].configs == topics["b"].configs == {"retention.ms": "604800000"}


def test_sections_may_be_there_but_empty() -> None:
    _load(c=CLUSTERS, a="access: []\ndeletions: []\nrollout: {}\n", b="access:\ndeletions:\nrollout:\n")
    assert _places(c=CLUSTERS, a="rollout: {waves: []}\n") == [("empty-value", "a.yaml:1", "waves")]


def test_every_problem_of_every_file_at_once_in_file_and_line_order() -> None:
    assert _places(
        broken="topics: {",
        clusters="clusters:\n  east: {bootstrap_servers: [e:9092], client: {sasl.password: x, sasl.usrname: [y]}}\n",
        flows="flows:\n  f: {source: east, target: east, topics: ['[']}\n  g: {source: east, lanes: 65, topics: []}\n",
        topics="topics:\n  a: {clusters: [east], partitions: 0, configs: {retention.ms: 1x}}\n  a: {}\n",
    ) == [
        ("yaml-broken", "broken.yaml:1", ""),
        ("secret-in-git", "clusters.yaml:2", "x"),
        ("wrong-type", "clusters.yaml:2", "sasl.usrname"),
        ("same-source-and-target", "flows.yaml:2", "east"),
        ("bad-regex", "flows.yaml:2", "'[']"),
        ("missing-field", "flows.yaml:3", "g"),
        ("out-of-range", "flows.yaml:3", "65"),
        ("empty-value", "flows.yaml:3", "topics"),
        ("out-of-range", "topics.yaml:2", "0"),
        ("bad-duration", "topics.yaml:2", "1x"),
        ("duplicate-key", "topics.yaml:3", "a"),
    ]


def test_a_second_merge_key_is_refused_as_any_key_is() -> None:
    topics = "topics:\n  a: &a {clusters: [east], partitions: 1}\n  b:\n    <<: *a\n    <<: *a\n"
    assert _places(c=CLUSTERS, t=topics) == [("duplicate-key", "t.yaml:5", "<<")]


def test_a_problem_has_no_followers() -> None:
    """A cluster whose entry or file is wrong is known all the same, and one wrong flow does not empty its mirror."""
    topics = "topics: {a: {clusters: [north]}}"
    flows = "flows: {f: {source: east, target: west, topics: [a], lanes: 0}}\nmirrors: {west: {parallelism: 1}}"
    north = "clusters: {north: {bootstrap_servers: []}}"
    assert _places(c=CLUSTERS, t=topics, f=flows, n=north) == [
        ("out-of-range", "f.yaml:1", "0"),
        ("empty-value", "n.yaml:1", "bootstrap_servers"),
    ]
    assert [problem.code for problem in _problems(c=CLUSTERS, t=topics, n="clusters: {north: ")] == ["yaml-broken"]


def test_values_of_client_settings_are_never_shown() -> None:
    text = """
clusters:
  east:
    bootstrap_servers: [e:9092]
    client:
      {sasl.password: hunter2, ssl.key.password: [hunter3], sasl.username: "${hunter4}", socket.timeout.ms: hunter5}
    principals: {plan: {sasl.oauthbearer.client.secret: hunter6, ssl.key.pem: "x${env:A}hunter7"}, aply: {a: hunter8}}
"""
    problems = _problems(a=text)
    assert [problem.code for problem in problems] == [
        "secret-in-git",
        "wrong-type",
        "bad-reference",
        "bad-duration",
        "secret-in-git",
        "secret-in-git",
        "unknown-field",
    ]
    assert "hunter" not in "\n".join(map(str, problems))


@pytest.mark.parametrize(
    "value",
    ["${env:A:-x}", "${env:}", "${ENV:A}", "${env:A", "${A}", "$env:A", "${env:A}${B}", "${file:}", "${env:1A}"],
)
def test_malformed_references_are_refused(value: str) -> None:
    text = f"clusters: {{east: {{bootstrap_servers: [e:9092], client: {{sasl.username: '{value}'}}}}}}"
    assert [problem.code for problem in _problems(a=text)] == ["bad-reference"]


def test_a_dollar_is_no_reference() -> None:
    text = "clusters: {east: {bootstrap_servers: [e:9092], client: {client.id: 'a$b{c}$'}}}"
    assert _load(a=text).clusters["east"].client == {"client.id": "a$b{c}$"}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("bootstrap_servers: east.example.net:9092", "Put it in brackets"),
        ("bootstrap_server: [e:9092]", "Perhaps you mean bootstrap_servers"),
        ("defaults: {partitions: '3'}", "Remove the quotes"),
        ("region: 5", "Put it in quotes"),
        ("defaults: {partitions: 9999999999}", "of at least 1, at most 2147483647"),
        (f"defaults: {{partitions: {'9' * 50}}}", "Write a whole number"),
        ("defaults: {replication_factor: 40000}", "Write a whole number from 1 to 32767"),
        ("defaults: {replica_factor: 3}", "Perhaps you mean replication_factor"),
        ("principals: {aply: {}}", "Perhaps you mean apply"),
    ],
)
def test_what_to_do_is_said(field: str, words: str) -> None:
    texts = {"a.yaml": f"clusters:\n  east:\n    {field}\n"}
    with pytest.raises(TopologyError) as caught:
        load(texts, "test")
    assert any(words in problem.todo for problem in caught.value.problems)


def test_no_file_at_all_is_no_topology() -> None:
    with pytest.raises(TopologyError) as caught:
        load({}, "environments/none")
    assert [problem.code for problem in caught.value.problems] == ["no-files"]


@pytest.mark.parametrize("root", ["just text", "[a, b]", "12", "null"])
def test_a_file_that_is_no_mapping(root: str) -> None:
    codes: list[Any] = [problem.code for problem in _problems(a=root, c=CLUSTERS)]
    assert len(codes) == 1
    assert codes[0] in ("wrong-type", "missing-value")


def _unread(file: str) -> Problem:
    return Problem("not-utf8", Where(file), "byte 0 is not UTF-8", "YAML files are UTF-8 here", "Save it as UTF-8")


def test_a_file_without_a_text_hides_nothing_of_the_others_and_is_held_against_no_one() -> None:
    texts = {
        "flows.yaml": "flows: {f: {source: east, target: west, topics: [a]}}",
        "topics.yaml": "topics:\n  a: {clusters: [east], partitions: -1}\n  b: {clusters: [west], class: k}\n",
    }
    with pytest.raises(TopologyError) as caught:
        load(texts, "test", unread=(_unread("clusters.yaml"),))
    assert [(one.code, one.where.file) for one in caught.value.problems] == [
        ("not-utf8", "clusters.yaml"),
        ("out-of-range", "topics.yaml"),
    ]


@pytest.mark.parametrize("second", ["{flows: [g], bogus: 1}", None])
def test_a_flow_may_be_named_by_a_mirror_that_could_not_be_read(second: str | None) -> None:
    flows = "flows:\n" + "".join(f"  {name}: {{source: east, target: west, topics: [{name}]}}\n" for name in "fg")
    mirrors = "mirrors:\n  west: {flows: [f]}\n" + (f"  second: {second}\n" if second else "")
    texts = {"clusters.yaml": CLUSTERS, "flows.yaml": flows, "mirrors.yaml": mirrors}
    with pytest.raises(TopologyError) as caught:
        load(texts, "test", unread=() if second else (_unread("more.yaml"),))
    assert [one.code for one in caught.value.problems] == ["unknown-field" if second else "not-utf8"]


def test_where_the_pages_are_read_is_one_address_for_the_environment() -> None:
    clusters = "clusters: {us: {bootstrap_servers: ['u:1']}}\n"
    here = "docs_url: https://docs.example.net/r\n"
    assert load({"a.yaml": clusters + here}, "e").rules.docs_url == "https://docs.example.net/r"
    for wrong in ("docs_url: javascript:alert(1)\n", "docs_url: 7\n", "docs_url: {url: x}\n"):
        with pytest.raises(TopologyError, match="an address such as https"):
            load({"a.yaml": clusters + wrong}, "e")
    assert load({"a.yaml": clusters + "docs_url: https://docs.example.net/@team\n"}, "e").rules.docs_url
    with pytest.raises(TopologyError, match="has a login") as raised:
        load({"a.yaml": clusters + "docs_url: https://me:c4nary@docs.example.net/r\n"}, "e")
    assert "c4nary" not in str(raised.value)
    with pytest.raises(TopologyError, match="docs_url is defined again"):
        load({"a.yaml": clusters + here, "b.yaml": "docs_url: https://other.example.net\n"}, "e")


def test_two_environments_below_one_folder_are_noticed_where_both_have_a_cluster() -> None:
    clusters = "clusters: {us: {bootstrap_servers: ['u:1']}}\n"
    with pytest.raises(TopologyError, match="If envs/prod and envs/test are two environments, name one of them"):
        load({"envs/prod/all.yaml": clusters, "envs/test/all.yaml": clusters}, "envs")
    with pytest.raises(TopologyError, match="is defined again") as caught:
        load({"envs/prod/a.yaml": clusters, "envs/prod/b.yaml": clusters}, "prod")
    assert "two environments" not in str(caught.value)

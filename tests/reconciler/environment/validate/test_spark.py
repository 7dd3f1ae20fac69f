"""What a mirror says to Spark: the control channel, and secrets that must not stand in git."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import ChannelSettings
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handover_text, mirror_handover


@pytest.mark.parametrize("key", ["spark.a=b", "spark.a b", "spark.\u202ea", "spark."])
def test_a_name_in_which_spark_would_read_another_setting_is_refused(key: str) -> None:
    with pytest.raises(TopologyError, match=r"spark\.something"):
        load(environment(spark_conf={key: "x"}), "e")


STANDALONE = {"master": "spark://h:7077"}


def environment(**mirror: Any) -> dict[str, str]:
    clusters = {name: {"bootstrap_servers": [f"{name}:9092"]} for name in ("east", "west")}
    flows = {"f": {"source": "east", "target": "west", "topics": ["orders"]}}
    return {"a.yaml": json.dumps({"clusters": clusters, "flows": flows, "mirrors": {"west": mirror}})}


def problems(**mirror: Any) -> list[tuple[str, str]]:
    with pytest.raises(TopologyError) as caught:
        load(environment(**mirror), "env")
    return [(problem.code, problem.what) for problem in caught.value.problems]


def test_the_channel_reaches_the_job_as_it_is_declared() -> None:
    channel = {"bind_address": "0.0.0.0", "advertised_address": "driver.example.net", "ports": "40000-40010"}
    topology = load(environment(**STANDALONE, channel=channel), "env")
    text = handover_text(mirror_handover(topology, topology.mirrors["west"]))
    assert parse(text).channel == ChannelSettings("0.0.0.0", "driver.example.net", 40000, 40010)
    without = load(environment(**STANDALONE), "env")
    assert "channel" not in mirror_handover(without, without.mirrors["west"]), "its fingerprint is as it was"


@pytest.mark.parametrize("ports", ["40000-40000", "40010-40000", "0-5", "65530-65536"])
def test_a_range_has_two_ports_that_exist(ports: str) -> None:
    assert problems(**STANDALONE, channel={"ports": ports}) == [
        ("out-of-range", f'mirror west: channel.ports is "{ports}"')
    ]


def test_what_a_master_does_not_read_is_refused() -> None:
    assert problems(channel={"ports": "40000-40010"}) == [
        ("no-effect", "mirror west: with the master local[2], channel has no effect")
    ]
    assert problems(master="yarn", spark_conf={"spark.authenticate.secret": "${env:A}"}) == [
        ("no-effect", "mirror west: with the master yarn, spark.authenticate.secret has no effect")
    ]


@pytest.mark.parametrize("key", ["spark.authenticate.secret", "spark.ssl.keyPassword", "spark.x.password"])
@pytest.mark.parametrize("text", ["c4nary", "c4nary${env:A}"])
def test_no_secret_of_spark_stands_in_git_or_in_the_message(key: str, text: str) -> None:
    (problem,) = problems(**STANDALONE, spark_conf={key: text})
    assert problem[0] in ("secret-in-git", "reference-not-here")
    assert "c4nary" not in problem[1]


@pytest.mark.parametrize(
    ("master", "conf", "open_to_all"),
    [
        ("spark://h:7077", {}, True),
        ("spark://h:7077", {"spark.authenticate.secret": "${env:A}"}, False),
        ("spark://h:7077", {"spark.authenticate": "true"}, False),
        ("spark://h:7077", {"spark.authenticate": "false", "spark.authenticate.secret": "${env:A}"}, True),
        ("yarn", {}, False),
        ("local[2]", {}, False),
    ],
)
def test_a_standalone_cluster_lets_everybody_in_unless_it_is_said_otherwise(
    master: str, conf: dict[str, str], open_to_all: bool
) -> None:
    assert Mirror("west", ("f",), master=master, spark_conf=conf).unauthenticated is open_to_all

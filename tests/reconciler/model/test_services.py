"""Services are guessed by their addresses, and what they change of a topic is known."""

from __future__ import annotations

import json

import pytest

from reconciler.model.environment.services import APACHE, SERVICES, guessed_service, offer_of, service_words
from tests.support.builders import cluster
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("server", "service"),
    [
        ("b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com:9098", "msk"),
        ("b-1.demo.a1b2c3.c2.kafka.cn-north-1.amazonaws.com.cn:9096", "msk"),
        ("boot-ab12.c1.kafka-serverless.us-east-1.amazonaws.com:9098", "msk-serverless"),
        ("pkc-4nym6.us-east-1.aws.confluent.cloud:9092", "confluent-cloud"),
        ("demo.servicebus.windows.net:9093", "event-hubs"),
        ("kafka-1-demo.aivencloud.com:12345", "aiven"),
        ("bootstrap.demo.europe-west1.managedkafka.acme.cloud.goog:9092", "gcp"),
        ("seed-1.abc.byoc.prd.cloud.redpanda.com:9092", "redpanda"),
        ("wn0-kafka.xyz.bx.internal.cloudapp.net:9092", "hdinsight"),
        ("kafka.eu-west-1.amazonaws.com.evil.example:9092", APACHE),
        ("east.example:9092", APACHE),
        ("[fd00::1]:9092", APACHE),
    ],
)
def test_a_service_is_guessed_by_its_addresses(server: str, service: str) -> None:
    assert guessed_service((server,)) == service
    assert guessed_service((server, "east.example:9092")) == APACHE


def test_what_is_written_wins_over_the_address() -> None:
    address = ("demo.servicebus.windows.net:9093",)
    assert service_words(cluster("east", bootstrap_servers=address)) == "Azure Event Hubs, by its address"
    assert service_words(cluster("east", bootstrap_servers=address, service="redpanda")) == "Redpanda Cloud"
    assert offer_of(cluster("east", bootstrap_servers=address, service=APACHE)).upgrades == ""


def test_the_schema_names_the_services() -> None:
    schema = json.loads((ROOT / "schemas/environment.schema.json").read_text())
    assert schema["$defs"]["cluster"]["properties"]["service"]["enum"] == [APACHE, *SERVICES]


def test_factors_and_configs() -> None:
    redpanda, hubs, serverless = (SERVICES[name] for name in ("redpanda", "event-hubs", "msk-serverless"))
    assert [redpanda.factor(asked) for asked in (None, 1, 3, 5)] == [None, 3, 3, 5]
    assert hubs.factor(3) is None
    assert serverless.why_not_set("segment.bytes", "1", new=True) == "does not let anyone set segment.bytes"
    assert serverless.why_not_set("cleanup.policy", "compact", new=True) == ""
    assert (
        serverless.why_not_set("cleanup.policy", "compact", new=False)
        == "sets cleanup.policy only when a topic is created"
    )
    assert SERVICES["msk"].why_not_set("segment.bytes", "1", new=True) == ""
    google, automq = SERVICES["gcp"], SERVICES["automq"]
    assert google.why_not_set("compression.type", "zstd", new=True) == "does not support compression.type zstd"
    assert google.why_not_set("compression.type", "lz4", new=True) == ""
    assert automq.factor(3) is None

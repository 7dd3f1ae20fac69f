"""Metadata and DescribeConfigs by hand, held against kafka-python's generated classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.metadata import MetadataRequest

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol import metadata_and_configs as topics
from reconciler.kafka.protocol.metadata_and_configs import (
    BrokerOf,
    ConfigOf,
    ConfigReader,
    ConfigsOf,
    PartitionOf,
    TopicOf,
)
from tests.support.lanes.frames import frame, metadata

TEXT = st.text(max_size=200)
NODES = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
PARTITIONS = st.lists(
    st.builds(PartitionOf, st.integers(0, 9_999), st.integers(-1, 99), NODES, NODES),
    max_size=4,
    unique_by=lambda p: p[0],
)
TOPICS = st.lists(
    st.builds(
        TopicOf, TEXT, st.sampled_from([0, 3, 29]), st.binary(min_size=16, max_size=16), st.booleans(), PARTITIONS
    )
)
ENTRY = st.builds(ConfigOf, TEXT, st.none() | TEXT, st.integers(0, 6), st.booleans(), st.booleans())
SETS = st.lists(st.lists(ENTRY, max_size=4).map(tuple), min_size=1, max_size=3)


def described(found: list[ConfigsOf], synonyms: bool) -> memoryview:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    entry = kind.DescribeConfigsResourceResult
    more = [entry.DescribeConfigsSynonym(name="s", value=None, source=5)] if synonyms else []
    results = [
        kind(
            error_code=one.error,
            error_message=one.message or None,
            resource_type=2,
            resource_name=one.name,
            configs=[
                entry(
                    name=e.name,
                    value=e.value,
                    read_only=e.read_only,
                    config_source=e.source,
                    is_sensitive=e.sensitive,
                    synonyms=more,
                    config_type=2,
                    documentation="words" if synonyms else None,
                )
                for e in one.entries
            ],
        )
        for one in found
    ]
    return frame(DescribeConfigsResponse(throttle_time_ms=7, results=results, version=topics.CONFIGS_VERSION))


@pytest.mark.parametrize("version", [topics.METADATA_LOWEST, topics.METADATA_NEWEST])
@pytest.mark.parametrize("names", [None, [], ["orders", "ä" * 100]])
def test_metadata_is_asked_for_without_making_a_topic(version: int, names: list[str] | None) -> None:
    request = MetadataRequest.decode(topics.pack_metadata(names), version=version)
    assert (request.topics if names is None else [topic.name for topic in request.topics]) == names
    assert not request.allow_auto_topic_creation


@given(TOPICS, st.sampled_from([topics.METADATA_LOWEST, topics.METADATA_NEWEST]))
def test_metadata_is_read_as_the_generated_class_wrote_it(found: list[TopicOf], version: int) -> None:
    told = topics.unpack_metadata(metadata(found, version))
    assert told[:3] == (5, "c", (BrokerOf(1, "a", 9092, ""), BrokerOf(2, "b", 9093, "rack")))
    assert told.topics == [topic._replace(partitions=tuple(sorted(topic.partitions))) for topic in found]


ALIKE = st.sampled_from(
    [
        (),
        (PartitionOf(0, 1, (1,), (1,)),),
        (PartitionOf(0, 2, (2,), (2,)),),
        (PartitionOf(0, 1, (1, 2), (1,)),),
        (PartitionOf(0, 1, (1,), (1,)), PartitionOf(1, 1, (1,), (1,))),
        tuple(PartitionOf(n, 1, (1, 2, 3), (1, 2, 3)) for n in range(9)),
    ]
)


@given(st.lists(ALIKE, max_size=40))
def test_topics_with_equal_partitions_are_distinguished_by_all_else(lists: list[tuple[PartitionOf, ...]]) -> None:
    """The bytes of one list may begin another."""
    found = [TopicOf(f"t{n}", 0, bytes([n]) * 16, False, partitions) for n, partitions in enumerate(lists)]
    told = topics.unpack_metadata(metadata(found, topics.METADATA_NEWEST))
    assert told.topics == found
    single = {id(topic.partitions) for topic in told.topics if len(topic.partitions) == 1}
    assert len(single) == len({partitions for partitions in lists if len(partitions) == 1})


def test_configs_are_asked_for_without_what_doubles_the_answer() -> None:
    request = DescribeConfigsRequest.decode(topics.pack_describe_configs(["orders", "x"]), version=4)
    assert [(one.resource_type, one.resource_name, one.configuration_keys) for one in request.resources] == [
        (2, "orders", None),
        (2, "x", None),
    ]
    assert (request.include_synonyms, request.include_documentation) == (False, False)


@given(SETS, st.data(), st.booleans())
def test_configs_are_read_as_the_generated_class_wrote_them(
    lists: list[tuple[ConfigOf, ...]], data: st.DataObject, synonyms: bool
) -> None:
    """One reader over several answers, so that lists come back that it has seen before."""
    reader = ConfigReader()
    for _ in range(3):
        chosen = data.draw(st.lists(st.tuples(TEXT, st.sampled_from(lists)), max_size=6))
        found = [ConfigsOf(name, 0, "", entries) for name, entries in chosen]
        assert reader.unpack(described(found, synonyms)) == (7, found)


def test_equal_lists_are_one_object_and_long_memory_is_not_needed() -> None:
    lists = [tuple(ConfigOf(f"k{n}", str(v), 5, False, False) for n in range(5)) for v in range(topics.SEEN_LISTS + 5)]
    found = [ConfigsOf(f"t{n}", 0, "", entries) for n, entries in enumerate(lists * 2)]
    _, told = ConfigReader().unpack(described(found, False))
    assert told == found
    assert all(told[n].entries is told[n + len(lists)].entries for n in range(len(lists)))


def test_a_refusal_keeps_its_code_and_words() -> None:
    refused = [ConfigsOf("secret", 29, "no, not you", ()), ConfigsOf("gone", 3, "", ())]
    assert ConfigReader().unpack(described(refused, False)) == (7, refused)


def test_half_an_answer_is_malformed() -> None:
    entries = (ConfigOf("retention.ms", "1", 1, False, False),)
    configs = described([ConfigsOf("orders", 0, "", entries), ConfigsOf("more", 0, "", entries)], True)
    told = metadata([TopicOf("orders", 0, bytes(16), False, (PartitionOf(0, 1, (1,), (1,)),))], 12)
    for size in range(5, len(configs)):
        with pytest.raises(MalformedResponseError):
            ConfigReader().unpack(configs[:size])
    for size in range(5, len(told)):
        with pytest.raises(MalformedResponseError):
            topics.unpack_metadata(told[:size])

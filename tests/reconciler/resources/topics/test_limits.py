"""A copy that would keep or take less than its source by the brokers' own settings is a risk, never silent."""

from __future__ import annotations

import pytest

from reconciler.model.changes import CreateTopic, Risk
from reconciler.model.config_values import LONG_MAX
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.live import Source
from reconciler.model.plan import Plan, Planned
from tests.support.builders import World, flow, topic, topology, world

COPY = "west/east.hist"


def brokers(seen: World, cluster: str, **values: str) -> None:
    for key, value in values.items():
        static = key == "cleanup_policy"
        seen.clusters[cluster].broker_configs[key.replace("_", ".")] = (
            value,
            Source.STATIC if static else Source.BUILT_IN,
        )


def kept_for_ever(*, fresh: bool = False) -> World:
    """As of server.properties with log.retention.hours=-1 and log.cleanup.policy=compact at the source. ``fresh``: no
    topic of the target shows what a new one has."""
    seen = world()
    brokers(seen, "east", retention_ms="-1", cleanup_policy="compact")
    seen.clusters["east"].put("hist")
    if not fresh:
        seen.clusters["west"].put("other")
    return seen


def creation(plan: Plan) -> Planned:
    [found] = [one for one in plan.changes if isinstance(one.change, CreateTopic) and str(one.change.ref) == COPY]
    return found


@pytest.mark.parametrize("fresh", [False, True])
def test_a_copy_that_would_lose_what_the_source_keeps_is_a_high_risk_with_what_to_write(*, fresh: bool) -> None:
    made = creation(kept_for_ever(fresh=fresh).plan(topology(flow("east", "west", "hist"))))
    assert made.risk is Risk.HIGH
    assert (
        "cleanup.policy is delete (broker default) on west, compact (static broker) on east: the copy loses what the"
        " source keeps"
    ) in made.risk_why
    assert "retention.ms is 7d (broker default) on west, unlimited (broker default) on east" in made.risk_why
    assert "Write cleanup.policy: compact, retention.ms: -1 under defaults.configs of cluster west" in made.risk_why


def test_what_new_copies_of_a_fresh_cluster_keep_is_unknown_where_no_broker_says() -> None:
    seen = kept_for_ever(fresh=True)
    seen.clusters["west"].broker_configs_denied = True
    plan = seen.plan(topology(flow("east", "west", "hist")))
    assert "whether new copies on west keep what their sources do is not known: it may not ask" in plan.notes


def test_the_sources_defaults_carry_what_server_properties_says_too() -> None:
    wished = topology(flow("east", "west", "hist", configs=ConfigSync(use_defaults_from="source")))
    made = creation(kept_for_ever().plan(wished))
    assert made.risk is Risk.LOW
    assert isinstance(made.change, CreateTopic)
    values = {config.key: (config.after, config.origin) for config in made.change.configs}
    assert values["cleanup.policy"] == ("compact", "source east/hist, static broker")
    assert values["retention.ms"] == ("-1", "source east/hist, broker default")


def test_a_copy_that_is_there_is_named_by_a_note_until_a_file_says_what_it_keeps() -> None:
    seen, wished = kept_for_ever(), topology(flow("east", "west", "hist"))
    seen.apply(wished)
    told = [note for note in seen.plan(wished).notes if "the copy loses" in note]
    assert len(told) == 2
    assert any(
        note.startswith(
            f"1 copy ({COPY}): retention.ms is 7d (broker default) on west, unlimited (broker default) on east: the"
            " copy loses what the source keeps. Write retention.ms: -1 under defaults.configs of cluster west"
        )
        for note in told
    )
    said = topology(
        topic("east.hist", "west", configs={"retention.ms": "86400000", "cleanup.policy": "delete"}),
        flow("east", "west", "hist"),
    )
    assert not [note for note in seen.plan(said).notes if "the copy loses" in note]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        ({"retention_bytes": "-1"}, {"retention_bytes": "1000"}, "retention.bytes is 1000 "),
        ({"max_message_bytes": "20000000"}, {}, "max.message.bytes is 1048588 "),
        ({}, {"message_timestamp_type": "LogAppendTime"}, "get the time of copying"),
        ({}, {"message_timestamp_before_max_ms": "3600000"}, "older when it is copied is refused"),
        ({"message_timestamp_before_max_ms": "3600000"}, {"message_timestamp_before_max_ms": "3600000"}, "is refused"),
        (
            {"message_timestamp_before_max_ms": str(LONG_MAX)},
            {"message_timestamp_before_max_ms": "3600000"},
            "is refused",
        ),
        (
            {"cleanup_policy": "compact", "segment_ms": "604800000"},
            {"cleanup_policy": "compact", "segment_ms": "60000"},
            "segment.ms is 1m ",
        ),
        (
            {"cleanup_policy": "compact", "min_compaction_lag_ms": "86400000"},
            {"cleanup_policy": "compact"},
            "min.compaction.lag.ms is 0 ",
        ),
        ({"cleanup_policy": "compact"}, {"cleanup_policy": "compact,delete"}, "cleanup.policy is compact,delete "),
    ],
)
def test_every_such_setting_is_compared_as_it_takes_effect(
    here: dict[str, str], there: dict[str, str], words: str, *, fresh: bool
) -> None:
    seen = world()
    brokers(seen, "east", **here)
    brokers(seen, "west", **there)
    seen.clusters["east"].put("hist")
    if fresh:
        seen.clusters["west"].put("__consumer_offsets").overrides["cleanup.policy"] = "compact"
    else:
        seen.clusters["west"].put("other")
    made = creation(seen.plan(topology(flow("east", "west", "hist"))))
    assert words in made.risk_why
    assert made.risk in (Risk.MEDIUM, Risk.HIGH)
    # The source's own limit of age would refuse its own old records when they are copied.
    age = "message_timestamp_before_max_ms"
    helps = age not in there or here.get(age) == str(LONG_MAX)
    assert ("use_defaults_from: source" in made.risk_why) == helps


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ({}, {}),
        ({}, {"retention_ms": "-1"}),
        ({"cleanup_policy": "compact,delete"}, {"cleanup_policy": "compact"}),
        ({"cleanup_policy": "compact", "retention_ms": "-1"}, {"cleanup_policy": "compact"}),
        ({"segment_ms": "604800000"}, {"segment_ms": "60000"}),
        ({}, {"message_timestamp_before_max_ms": str(LONG_MAX)}),
        ({"min_compaction_lag_ms": "5"}, {}),
    ],
)
def test_what_has_no_effect_or_keeps_more_is_no_risk(here: dict[str, str], there: dict[str, str]) -> None:
    seen = world()
    brokers(seen, "east", **here)
    brokers(seen, "west", **there)
    seen.clusters["east"].put("hist")
    seen.clusters["west"].put("other")
    made = creation(seen.plan(topology(flow("east", "west", "hist"))))
    assert (made.risk, made.risk_why) == (Risk.LOW, "")

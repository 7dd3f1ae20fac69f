"""What verify is asked, what it answers, and what a person reads. Nothing compared is not equal."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape

import jsonschema
import pytest

from reconciler.errors import ExitCode, ReconcilerError, Unknown
from reconciler.model.live import ConfigValue, LiveCluster, LiveTopic, Source
from reconciler.model.plan import Edition
from reconciler.model.reports.verify import SampleSize, Verification, VerificationRequest
from reconciler.render.reports.verify import verify_html, verify_json, verify_text
from reconciler.replication.runs.verification import (
    ComparedPartition,
    Equality,
    FieldDigest,
    FirstDifference,
    OffsetRange,
    ShownRecord,
)
from reconciler.resources.mirrors.verify_request import answered, request_fields, time_ms
from tests.support.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "verify.schema.json").read_text())

EQUAL = ComparedPartition(
    "east-to-west",
    "orders",
    "east.orders",
    0,
    Equality.EQUAL,
    "records",
    equal=12_345,
    source_records=12_345,
    target_records=12_345,
    lag=7,
    position=12_400,
    source=OffsetRange("east", 0, 12_407),
    target=OffsetRange("west", 0, 12_999),
)
SHOWN = ShownRecord(FieldDigest(4, "aa" * 16), FieldDigest(None, ""), FieldDigest(1, "bb" * 16), 1_700_000_000_000)
OTHER = replace(SHOWN, value=FieldDigest(0, "cc" * 16), timestamp=5)
DIFFERENT = replace(
    EQUAL,
    partition=1,
    state=Equality.DIFFERENT,
    differing=1,
    difference=FirstDifference(41, ("value", "timestamp"), 50, 61, SHOWN, OTHER, 1),
)
MISSING = replace(DIFFERENT, partition=2, difference=FirstDifference(9, ("missing",), 9, 9, SHOWN, OTHER, 3))
UNKNOWN = ComparedPartition(
    "east-to-west", "orders", "east.orders", 3, Equality.UNKNOWN, "nothing", reason="no leader", todo="Wait."
)


def verification(*partitions: ComparedPartition) -> Verification:
    return Verification("sandbox", VerificationRequest(), partitions, ("local-1",), 3.0)


@pytest.mark.parametrize(
    ("partitions", "code", "verdict"),
    [
        ((EQUAL,), ExitCode.DONE, "Equal: 1 partition, 12,345 records compared; 7 offsets not copied yet"),
        ((EQUAL, UNKNOWN), ExitCode.ERROR, "Unknown: 1 of 2 partitions could not be compared; 1 equal"),
        ((EQUAL, DIFFERENT, UNKNOWN), ExitCode.CHANGES, "Different: 1 of 3 partitions, 1 unknown"),
        ((), ExitCode.ERROR, "Unknown: there was nothing to compare"),
    ],
)
def test_verdict_and_exit_code(partitions: tuple[ComparedPartition, ...], code: ExitCode, verdict: str) -> None:
    found = verification(*partitions)
    assert found.exit_code is code
    assert verify_text(found).splitlines()[0] == verdict
    assert json.loads(verify_json(found))["verdict"] == verdict


def test_the_text_names_what_differs_without_showing_it() -> None:
    assert verify_text(verification(UNKNOWN, MISSING, DIFFERENT, EQUAL)) == (
        "Different: 2 of 4 partitions, 1 unknown\n"
        "environment sandbox, 3 s\n"
        "reconciler verify ENV\n"
        "\n"
        "flow east-to-west\n"
        "  source    target               compared  lag  state\n"
        "  orders-0  east.orders-0  12,345 records    7  equal\n"
        "  orders-1  east.orders-1  12,345 records    7  different\n"
        "  orders-2  east.orders-2  12,345 records    7  different\n"
        "  orders-3  east.orders-3               -    -  unknown\n"
        "\n"
        "different: orders-1 and east.orders-1 part first at source offset 50, target offset 61: "
        "value, timestamp differ\n"
        "  value: null at the source, 0 bytes [cccccccccccc] at the target\n"
        "  timestamp: 1700000000000 ms at the source, 5 ms at the target\n"
        "  read: 12,345 records at the source, 12,345 at the target\n"
        "\n"
        "different: orders-2 and east.orders-2 part first at source offset 9, target offset 9: missing at the target "
        "(3 in a row)\n"
        "  the record: key 4 bytes [aaaaaaaaaaaa], value null, 1 header [bbbbbbbbbbbb], timestamp 1700000000000 ms\n"
        "  read: 12,345 records at the source, 12,345 at the target\n"
        "\n"
        "unknown: orders-3: no leader\n"
        "  Wait.\n"
    )


def test_a_cluster_that_one_client_alone_has_read_is_named_in_each_form() -> None:
    said = "cluster west was read by the mirror's own client alone, because ..."
    report = replace(verification(EQUAL), one_client=(said,))
    assert f"one client: {said}" in verify_text(report)
    assert json.loads(verify_json(report))["one_client"] == [said]
    assert said in unescape(verify_html(report))
    jsonschema.validate(json.loads(verify_json(report)), SCHEMA)


def test_every_form_says_of_which_commit_when_and_by_which_command() -> None:
    request = VerificationRequest("east-to-west", sample=SampleSize(fraction=0.01), seed=7)
    report = replace(
        verification(EQUAL), request=request, at_ms=1_795_905_612_000, edition=Edition("4f0c2d1e9ab37", True)
    )
    command = "reconciler verify ENV east-to-west --sample 1% --seed 7"
    when = "environment sandbox, commit 4f0c2d1e9ab3 with uncommitted changes, 2026-11-28 22:40:12 UTC, 3 s"
    for form in (verify_text(report), unescape(verify_html(report))):
        assert when in form
        assert command in form
    document = json.loads(verify_json(report))
    jsonschema.validate(document, SCHEMA)
    assert (document["command"], document["at_ms"]) == (command, 1_795_905_612_000)
    assert (document["revision"], document["dirty"]) == ("4f0c2d1e9ab37", True)
    timed = VerificationRequest(from_ms=5, to_ms=9)
    assert "reconciler verify ENV --from 5 --to 9\n" in verify_text(replace(report, request=timed))


def test_many_equal_partitions_of_a_topic_share_a_row() -> None:
    many = [replace(EQUAL, partition=number) for number in range(100)]
    text = verify_text(verification(*many, replace(DIFFERENT, partition=100)))
    assert "orders (100 partitions)" in text
    assert "1,234,500 records" in text
    assert "orders-100  " in text
    assert "orders-7 " not in text


def test_the_json_follows_its_schema_and_comes_back_as_values() -> None:
    document = json.loads(verify_json(verification(EQUAL, DIFFERENT, MISSING, UNKNOWN)))
    jsonschema.validate(document, SCHEMA)
    assert answered(document) == (EQUAL, DIFFERENT, MISSING, UNKNOWN)


def test_another_format_is_refused() -> None:
    with pytest.raises(ReconcilerError, match="format 2"):
        answered({"format_version": 2, "partitions": []})


def live_topic(name: str, **configs: str) -> LiveTopic:
    values = {key.replace("_", "."): ConfigValue(value, Source.TOPIC) for key, value in configs.items()}
    return LiveTopic(name, "id", (), values)


def test_the_job_gets_the_topics_that_are_special() -> None:
    topics = [
        live_topic("plain", cleanup_policy="delete"),
        live_topic("kept", cleanup_policy="compact,delete"),
        live_topic("stamped", message_timestamp_type="LogAppendTime"),
        LiveTopic("hidden", "id", (), Unknown("configs of hidden", "denied")),
    ]
    cluster = LiveCluster("east", "id", (), {topic.name: topic for topic in topics})
    cluster = replace(cluster, hidden={"denied": Unknown("east/denied", "denied")})
    asked = request_fields(VerificationRequest(from_ms=5), ["b", "a"], {"east": cluster}, "/p")
    assert asked["flows"] == ["a", "b"]
    assert (asked["from_ms"], asked["to_ms"]) == (5, None)
    assert asked["topics"]["east"] == {
        "compacted": ["kept"],
        "append_time": ["stamped"],
        "unknown": ["denied", "hidden"],
    }


def test_times_are_read_as_utc_or_milliseconds() -> None:
    assert time_ms(None, "--from") is None
    assert time_ms("1700000000000", "--from") == 1_700_000_000_000
    assert time_ms("2023-11-14T22:13:20Z", "--from") == time_ms("2023-11-14T22:13:20", "--from") == 1_700_000_000_000
    assert time_ms("2023-11-14T23:13:20+01:00", "--from") == 1_700_000_000_000
    with pytest.raises(ReconcilerError, match=r"--from 'yesterday' is not a time"):
        time_ms("yesterday", "--from")
    for text in ("\u00b2", "\u0661", "9" * 5_000):
        with pytest.raises(ReconcilerError, match="is not a time"):
            time_ms(text, "--from")


def test_equal_says_that_a_matched_topic_is_not_carried() -> None:
    """Nothing was compared of it, so "equal" alone would be untrue."""
    words = "flow east-to-west does not carry 1 topic of east that its expressions match: west.orders (...)"
    proved = replace(verification(EQUAL), left_out=(words,))
    assert verify_text(proved).splitlines()[0].endswith("; not all that is matched is carried")
    assert f"not compared: {words}" in verify_text(proved)
    document = json.loads(verify_json(proved))
    jsonschema.validate(document, SCHEMA)
    assert document["left_out"] == [words]

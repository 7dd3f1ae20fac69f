"""The secrets of a mirror's job, on its way through Spark: the password of a TLS key, a SCRAM password, the token of
the control channel. They are in no event log, status record, log, hand-over or command line, in no spelling."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.model.environment.topology import Mirror
from reconciler.replication.names import STATUS_TOPIC
from tests.support.access.role_users import RoleUser, mirror_rules
from tests.support.access.spellings import CANARY, kept, spellings
from tests.support.clusters import CreateTopic
from tests.support.jobs.mirror_job import Job, command_lines, flow, handover, until
from tests.support.jobs.records import digest, producer, write_awkward
from tests.support.lanes.truth import map_topic
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka("secure"), pytest.mark.spark, pytest.mark.timeout(400)]
TOKEN = "0c4a17e9" * 4
"""Of the control channel, which makes one by itself."""
CONTENT = b"a-customers-name-5d0e"
"""Key, value and header of a record."""
_CHOSEN = f"""
import pathlib, secrets
made = secrets.token_hex
def token_hex(size=32):
    if size != {len(TOKEN) // 2}:
        return made(size)
    pathlib.Path(__file__).with_name("asked").touch()
    return "{TOKEN}"
secrets.token_hex = token_hex
"""


def of_key(east: ClusterHandle, folder: Path) -> dict[str, object]:
    """The principal ``mirror``, by a certificate whose key has the canary for a password."""
    settings = east.mtls_client("mirror")
    key = load_pem_private_key(Path(settings["ssl.key.location"]).read_bytes(), None)
    closed = folder / "closed.key"
    closed.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(CANARY.encode())))
    servers = settings.pop("bootstrap.servers").split(",")
    client = settings | {"ssl.key.location": str(closed), "ssl.key.password": "${env:KEY_PASSWORD}"}
    return {"name": east.name, "bootstrap_servers": servers, "client": client}


def of_user(west: ClusterHandle, topic: str) -> dict[str, object]:
    """A user with exactly the rules of the role mirror, and the canary for a password."""
    client = RoleUser(west, f"{topic}m", mirror_rules(topic, "west"), CANARY).made().client()
    servers = client.pop("bootstrap.servers").split(",")
    return {
        "name": west.name,
        "bootstrap_servers": servers,
        "client": client | {"sasl.password": "${env:ROLE_PASSWORD}"},
    }


def test_no_secret_of_a_job_is_told_or_kept(
    secure: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    east, west = secure["east"], secure["west"]
    create_topic(east, unique, 2, retention_ms="-1")
    create_topic(west, f"east.{unique}", 2, retention_ms="-1")
    map_topic(west)
    with contextlib.suppress(KafkaException):  # another test has made it
        create_topic(west, STATUS_TOPIC, cleanup_policy="compact")
    write_awkward(east, unique, 2, 60)
    made = producer(east)
    made.produce(unique, CONTENT, CONTENT, partition=0, headers=[(CONTENT.decode(), CONTENT)])
    assert made.flush(60) == 0
    chosen, events, keys = (tmp_path / name for name in ("chosen", "events", "keys"))
    for folder in (chosen, events, keys):
        folder.mkdir()
    (chosen / "sitecustomize.py").write_text(_CHOSEN)
    target = of_user(west, unique)
    copied = flow(unique, east, west, [unique], lanes=2) | {"source": of_key(east, keys), "target": target}
    content = handover(west, unique, [copied])
    content["status"]["cluster"] = target
    conf = {
        "spark.driver.memory": "480m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.logStageExecutorMetrics": "true",
    }
    variables = {"KEY_PASSWORD": CANARY, "ROLE_PASSWORD": CANARY, "PYTHONPATH": str(chosen)}
    job = Job(tmp_path / "run", content, environment=variables, mirror=Mirror(unique, (unique,), spark_conf=conf))
    try:
        job.start()
        until("the copy", lambda: digest(east, unique) == digest(west, f"east.{unique}"), job, 180)
        lines = command_lines()
        assert job.stop() == 0, job.log[-3000:]
    finally:
        job.kill_group()
    assert (chosen / "asked").exists(), "the token of the channel is the one that is looked for"
    found = kept(tmp_path / "run") | kept(events)
    assert any("SparkListenerTaskEnd" in text for text in kept(events).values()), "tasks are in the event log"
    found |= {f"command line of {pid}": text for pid, text in lines.items()}
    records = [(message.key(), message.value() or b"") for message in to_the_end(west, STATUS_TOPIC)]
    assert any(unique.encode() in (key or b"") for key, _ in records), "the job has told its status"
    found |= {f"status record {key!r}": value.decode(errors="replace") for key, value in records}
    for place, text in found.items():
        assert CONTENT.decode() not in text, "logs hold no records"
        for secret in (CANARY, TOKEN):
            assert [each for each in spellings(secret) if each in text] == [], place

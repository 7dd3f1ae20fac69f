"""The secrets of a mirror's job, on its way through Spark: the password of a TLS key, a SCRAM password, the token of
the control channel, secrets of OAuth and AWS and the tokens made of them. They are in no event log, status record, log,
hand-over or command line, in no spelling."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.model.environment.topology import Mirror
from reconciler.replication.names import STATUS_TOPIC
from tests.support.access import token_brokers as identities
from tests.support.access.issuer import running_issuer
from tests.support.access.role_users import RoleUser, mirror_rules
from tests.support.access.spellings import CANARY, kept, spellings
from tests.support.clusters import CreateTopic
from tests.support.jobs.mirror_job import Job, command_lines, create_topics, flow, handover, until
from tests.support.jobs.records import digest, producer, write_awkward
from tests.support.lanes.truth import map_topic
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
TOKEN = "0c4a17e9" * 4
"""Of the control channel, which makes one by itself."""
PRESIGNED = base64.b64encode(b"https://kafka.eu-west-1.amazon").decode()
"""How each token of MSK begins."""
FOR_EVER: dict[str, Any] = {"retention.ms": "-1"}
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


def told_and_kept(
    folder: Path, mirror: str, copied: dict[str, object], variables: dict[str, str], clusters: tuple[ClusterHandle, ...]
) -> dict[str, str]:
    """By where it is: all that a job says, keeps and shows until ``copied``, a flow, has copied its topic."""
    east, west = clusters
    map_topic(west)
    create_topics(west, STATUS_TOPIC)
    made = producer(east)
    made.produce(mirror, CONTENT, CONTENT, partition=0, headers=[(CONTENT.decode(), CONTENT)])
    assert made.flush(60) == 0
    content = handover(west, mirror, [copied])
    content["status"]["cluster"] = copied["target"]
    events = folder / "events"
    events.mkdir()
    conf = {
        "spark.driver.memory": "480m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.logStageExecutorMetrics": "true",
    }
    job = Job(folder / "run", content, environment=variables, mirror=Mirror(mirror, (mirror,), spark_conf=conf))
    try:
        job.start()
        until("the copy", lambda: digest(east, mirror) == digest(west, f"east.{mirror}"), job, 180)
        lines = command_lines()
        assert job.stop() == 0, job.log[-3000:]
    finally:
        job.kill_group()
    found = kept(folder / "run") | kept(events)
    assert any("SparkListenerTaskEnd" in text for text in kept(events).values()), "tasks are in the event log"
    found |= {f"command line of {pid}": text for pid, text in lines.items()}
    records = [(message.key(), message.value() or b"") for message in to_the_end(west, STATUS_TOPIC)]
    assert any(mirror.encode() in (key or b"") for key, _ in records), "the job has told its status"
    found |= {f"status record {key!r}": value.decode(errors="replace") for key, value in records}
    for text in found.values():
        assert CONTENT.decode() not in text, "logs hold no records"
    return found


@pytest.mark.kafka("secure")
@pytest.mark.long
def test_no_secret_of_a_job_is_reported_or_kept(
    secure: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    east, west = secure["east"], secure["west"]
    create_topic(east, unique, 2, retention_ms="-1")
    create_topic(west, f"east.{unique}", 2, retention_ms="-1")
    write_awkward(east, unique, 2, 60)
    chosen, keys = (tmp_path / name for name in ("chosen", "keys"))
    for folder in (chosen, keys):
        folder.mkdir()
    (chosen / "sitecustomize.py").write_text(_CHOSEN)
    logins = {"source": of_key(east, keys), "target": of_user(west, unique)}
    variables = {"KEY_PASSWORD": CANARY, "ROLE_PASSWORD": CANARY, "PYTHONPATH": str(chosen)}
    copied = flow(unique, east, west, [unique], lanes=2) | logins
    found = told_and_kept(tmp_path, unique, copied, variables, (east, west))
    assert (chosen / "asked").exists(), "the token of the channel is the one that is looked for"
    for place, text in found.items():
        for secret in (CANARY, TOKEN):
            assert [each for each in spellings(secret) if each in text] == [], place


@pytest.mark.long
def test_no_secret_or_token_of_an_identity_is_reported_or_kept(
    unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret of an OAuth client, keys of AWS, and what is made of both."""
    with running_issuer() as issuer, identities.token_brokers(issuer, ("east", "west")) as sandbox:
        made, given = issuer.token, list[str]()

        def token() -> str:
            given.append(made())
            return given[-1]

        monkeypatch.setattr(issuer, "token", token)
        issuer.secret = CANARY
        east, west = sandbox["east"], sandbox["west"]
        of_issuer = {**identities.client(east, "OAUTHBEARER"), **issuer.client(client_secret="${env:OAUTH_SECRET}")}
        logins = {"source": (east, of_issuer), "target": (west, identities.client(west, "AWS_MSK_IAM"))}
        variables = {"OAUTH_SECRET": CANARY, "AWS_ACCESS_KEY_ID": identities.KEY}
        variables |= {"AWS_SECRET_ACCESS_KEY": identities.AWS_SECRET, "AWS_SESSION_TOKEN": identities.SESSION}
        for cluster, topic in ((east, unique), (west, f"east.{unique}")):
            create_topics(cluster, topic, partitions=2, **FOR_EVER)
        write_awkward(east, unique, 2, 60)
        copied = flow(unique, east, west, [unique], lanes=2)
        for side, (handle, client) in logins.items():
            servers = client.pop("bootstrap.servers")
            copied[side] = {"name": handle.name, "bootstrap_servers": [servers], "client": client}
        found = told_and_kept(tmp_path, unique, copied, variables, (east, west))
    assert given, "the issuer gave tokens"
    secrets = [CANARY, identities.AWS_SECRET, identities.SESSION, *(one.rpartition(".")[2] for one in given)]
    for place, text in found.items():
        if "-Dmsk.secret=" in text:  # the test's own brokers
            continue
        assert PRESIGNED not in text, place
        for secret in secrets:
            assert [each for each in spellings(secret) if each in text] == [], place

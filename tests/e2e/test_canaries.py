"""Every secret of an environment is a canary: no command says it, writes it, or sends it, in any spelling.

Once where logins work, and once where each fails in its own way: a wrong password, a key that its password does not
open, a token endpoint that is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import RunnerError
from reconciler.model.live import LiveMirror
from tests.support.access.role_users import RoleUser, rules_of, scram_cluster
from tests.support.access.spellings import CANARY, kept, spellings
from tests.support.commands import Ended, Write

Cli = Callable[..., Ended]
SECRETS = ("ROLE_PASSWORD", "KEY_PASSWORD", "OAUTH_SECRET", "USER_PASSWORD", "SPARK_SECRET")


Command = tuple[str, ...]
WORKING: tuple[Command, ...] = (
    ("validate", "ENV", "--format", "json"),
    *(("plan", "ENV", "--format", form) for form in ("text", "markdown", "html", "json")),
    ("plan", "ENV", "--out", "SAVED"),
    ("apply", "ENV", "--yes", "--first-contact"),
    ("drift", "ENV", "--format", "json"),
    ("explain", "ENV", "east/TOPIC"),
    ("status", "ENV", "--format", "json"),
    ("failover", "ENV", "FLOW"),
    ("failover", "ENV", "FLOW", "--unplanned", "--fence", "--yes", "--format", "json"),
    ("failback", "ENV", "FLOW"),
    ("failback", "ENV", "FLOW", "--yes", "--format", "html"),
    ("mirror", "pause", "ENV", "FLOW"),
    ("mirror", "seek", "ENV", "FLOW", "--topic", "TOPIC", "--to", "earliest", "--yes"),
    ("reassignments", "show", "ENV"),
)
FAILING: tuple[Command, ...] = (("plan", "ENV"), ("apply", "ENV", "--yes"), ("doctor", "ENV", "--within", "5s"))


@pytest.fixture
def users(secure: Sandbox, unique: str) -> dict[str, RoleUser]:
    """The plan and the apply principal on both clusters, with the canary for a password."""
    roles = "".join(
        f"  - {{role: reconciler-{who}, principal: 'User:{unique}{who}', clusters: [east]}}\n"
        for who in ("plan", "apply")
    )
    text = f"clusters: {{east: {{bootstrap_servers: [e:1]}}}}\naccess:\n{roles}"
    for who in ("plan", "apply"):
        for handle in secure.clusters.values():
            RoleUser(handle, f"{unique}{who}", rules_of(text, f"{unique}{who}", "east"), CANARY).made()
    return {who: RoleUser(secure["east"], f"{unique}{who}", (), CANARY) for who in ("plan", "apply")}


@pytest.fixture
def ran(
    cli: Cli, write: Write, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, Any], tuple[Command, ...]], list[Ended]]:
    """Runs commands on an environment, and looks for the canary in all that they say and keep."""
    monkeypatch.setenv("RECONCILER_STATE", str(tmp_path / "state"))
    for name in SECRETS:
        monkeypatch.setenv(name, CANARY)

    def run(document: dict[str, Any], commands: tuple[Command, ...]) -> list[Ended]:
        words = {"ENV": str(write(json.dumps(document), unique)), "SAVED": str(tmp_path / "saved.json"), "FLOW": unique}
        endings: list[Ended] = []
        for command in commands:
            endings.append(cli(*(words.get(word, word.replace("TOPIC", unique)) for word in command)))
            said = endings[-1].words
            assert [text for text in spellings(CANARY) if text in said] == [], f"{' '.join(command)}: {said}"
            assert not re.search(r"No such option|Missing option|Usage:", said), f"{' '.join(command)}: {said}"
        for path, content in kept(tmp_path).items():
            assert [text for text in spellings(CANARY) if text in content] == [], path
        loose = [str(path) for path in (tmp_path / "state").rglob("*") if path.stat().st_mode & 0o077]
        assert loose == [], "what commands keep is for this user alone"
        return endings

    return run


def _no_spark(*_: object) -> LiveMirror:
    raise RunnerError("no job is started in this test", "It would wait for its master.", "Nothing.")


@pytest.mark.kafka("secure")
def test_no_command_lets_a_secret_out(
    ran: Callable[..., list[Ended]],
    secure: Sandbox,
    users: dict[str, RoleUser],
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its job is looked at in tests/e2e/spark/test_job_canaries.py; a master that is none would be waited for here.
    monkeypatch.setattr(SparkRunner, "start", _no_spark)
    principals = {who: user.name for who, user in users.items()} | {"mirror": users["apply"].name}
    entry = {"clusters": ["east"], "name": f"{unique}app", "password": "${env:USER_PASSWORD}", "version": 1}
    spark = {"master": "spark://127.0.0.1:1", "spark_conf": {"spark.authenticate.secret": "${env:SPARK_SECRET}"}}
    document = {
        "clusters": {name: scram_cluster(handle, principals) for name, handle in secure.clusters.items()},
        "topics": {unique: {"clusters": ["east"], "partitions": 1}},
        "users": [entry],
        "flows": {unique: {"source": "east", "target": "west", "topics": [unique]}},
        "mirrors": {"west": spark},
    }
    endings = ran(document, WORKING)
    planned = endings[1]
    assert (planned.code, f"{unique}app" in planned.words) == (2, True), planned.words


@pytest.mark.kafka("secure")
def test_no_login_that_fails_lets_a_secret_out(ran: Callable[..., list[Ended]], secure: Sandbox, unique: str) -> None:
    east = secure["east"]
    mutual = east.mtls_client("user")
    files = {key: mutual[key] for key in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")}
    document = {
        "clusters": {
            "east": scram_cluster(east, {"plan": "user", "apply": "user"}),
            "hub": {"bootstrap_servers": ["127.0.0.1:1"], "client": OAUTH},
            "west": {
                "bootstrap_servers": east.mtls_bootstrap_servers.split(","),
                "client": {"security.protocol": "SSL", "ssl.key.password": "${env:KEY_PASSWORD}", **files},
            },
        },
        "topics": {unique: {"clusters": ["east", "hub", "west"], "partitions": 1}},
    }
    for ended in ran(document, FAILING):
        assert ended.code != 0, ended.words


OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "reconciler",
    "sasl.oauthbearer.client.secret": "${env:OAUTH_SECRET}",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}


def test_the_spellings_are_those_that_formats_use() -> None:
    assert json.dumps({"a": CANARY})[7:-2] in spellings(CANARY)
    assert f"{CANARY!r}"[1:-1] in spellings(CANARY)


def test_an_import_writes_no_secret(cli: Cli, tmp_path: Path) -> None:
    """Not in the environment, which goes to git, and not among what is told of it."""
    secret = "c4n-ry%&<s"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="{secret}";'
    lines = [
        "clusters = east, west",
        "east.bootstrap.servers = e:9092",
        "west.bootstrap.servers = w:9092",
        "east->west.enabled = true",
        "east->west.topics = orders.*",
        *(f"{side}.security.protocol = SASL_SSL" for side in ("east", "west")),
        *(f"{side}.sasl.mechanism = SCRAM-SHA-512" for side in ("east", "west")),
        *(f"{side}.sasl.jaas.config = {login}" for side in ("east", "west")),
        f"east.ssl.key.password = {secret}",
        f"west.ssl.keystore.password = {secret}",
        f"west.ssl.truststore.password = {secret}",
        f"east.sasl.oauthbearer.client.credentials.client.secret = {secret}",
    ]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join(lines) + "\n")
    out = tmp_path / "imported"
    ended = cli("import", file, "--out", out)
    assert "${env:" in "".join(kept(out).values()), ended.words
    for place, content in {"what it says": ended.words, **kept(out)}.items():
        assert [text for text in spellings(secret) if text in content] == [], place

"""Java clients move under load: docs/how-to/one-evening.md line by line, from a real MirrorMaker 2 on secure clusters;
a cut-over that is killed at each step, with and without an authorizer; clients that keep the address of a proxy.

What must hold: each record that a cluster accepted is read once.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.paths import STATE
from reconciler_sandbox.releases import Release

from tests.support.access.acls import rules
from tests.support.access.role_users import kafka_filter, kafka_rule
from tests.support.clusters import CreateTopic, secured_clusters
from tests.support.jobs.environments import Running
from tests.support.jobs.free_ports import free_ports
from tests.support.lanes.mirrormaker_records import mirrormaker
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
PAGE, PARTITIONS, PATIENCE_S = ROOT / "docs/how-to/one-evening.md", 3, 240.0
JAVA = Path(__file__).parent / "java_clients"
PROGRAM = JAVA / "MovingClients.java"
KROXYLICIOUS = Release(
    "0.9.0", STATE / "jars" / "kroxylicious", JAVA / "jars.sha256", JAVA / "pom.xml", product="Kroxylicious"
)
LONGEST_STOP_S = 90.0  # of a machine that runs other tests; docs quote none


class Application:
    """Of Java clients: a producer and a group of one topic. ``lines`` are what it has said so far."""

    def __init__(self, folder: Path, topic: str, transaction: int, address: str = "east") -> None:
        self.folder, self.topic = folder, topic
        (folder / f"{topic}.address").write_text(address)
        self.said = folder / f"{topic}.said"
        command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars.ensure()}{os.sep}*"]
        command += [str(PROGRAM), str(folder), topic, str(PARTITIONS), str(transaction)]
        with self.said.open("wb") as out, (folder / f"{topic}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def numbers(self, kind: str) -> list[int]:
        return [int(words[1]) for words in map(str.split, self.said.read_text().splitlines()) if words[0] == kind]

    @property
    def longest_stop_s(self) -> float:
        lines = map(str.split, self.said.read_text().splitlines())
        times = [int(words[2]) for words in lines if words[0] == "w"]
        return max((after - before for before, after in pairwise(times)), default=0) / 1000

    def end(self) -> None:
        """Stops producing, and waits until everything is read."""
        (self.folder / f"{self.topic}.over").touch()
        until(lambda: len(self.numbers("r")) >= len(self.numbers("w")), self.said)
        time.sleep(2)  # what comes twice would come now


def until(done: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.3)


def java_settings(handle: ClusterHandle, who: str, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{who}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(handle.ca),
    }


@contextmanager
def allowed(secure: Sandbox, topics: tuple[str, str], who: str = "user") -> Iterator[None]:
    """The applications may write and read on both sides."""
    mine = [
        rule
        for topic in topics
        for rule in rules(
            f"allow User:{who} write topic {topic}", f"allow User:{who} read topic {topic}",
            f"allow User:{who} read group {topic}-app", f"allow User:{who} write transactional_id {topic}-writer",
        )
    ]  # fmt: skip
    admins = [AdminClient(handle.super_client()) for handle in secure.clusters.values()]
    for admin in admins:
        for made in admin.create_acls([kafka_rule(each) for each in mine]).values():
            made.result(30)
    try:
        yield
    finally:
        for admin in admins:
            for gone in admin.delete_acls([kafka_filter(each) for each in mine]).values():
                gone.result(30)


def commands(names: dict[str, str]) -> Iterator[list[str]]:
    """Of the page, with the names of this test."""
    for block in re.findall(r"^```shell\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        for line in block.splitlines():
            if line.startswith("reconciler "):
                yield [names.get(word, word) for word in shlex.split(line)[1:]]


def test_applications_leave_mirrormaker_and_its_source_in_two_waves(
    secure: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, payments = f"{unique}orders", f"{unique}payments"
    env, clients = tmp_path / "environments" / "move", tmp_path / "clients"
    clients.mkdir()
    security: dict[str, str] = {}
    for name, handle in secure.clusters.items():
        for variable, secret in handle.secrets().items():
            monkeypatch.setenv(variable, secret)
        lines = {
            "bootstrap.servers": handle.bootstrap_servers,
            **java_settings(handle, "user", handle.passwords["user"]),
        }
        (clients / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        theirs = java_settings(handle, "admin", f"${{env:SANDBOX_{name.upper()}_ADMIN_PASSWORD}}")
        security |= {f"{name}.{key}": value for key, value in theirs.items()}
    more = {
        **security,
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "east->west.groups": f"{unique}.*",
    }
    hook = tmp_path / "hooks" / "move-clients"
    hook.parent.mkdir()
    hook.write_text(
        '#!/bin/sh\nfor topic in $(echo "$RECONCILER_TOPICS" | tr , " ")\n'
        f'do echo "$RECONCILER_DESTINATION" > "{clients}/$topic.address"\ndone\n'
    )
    hook.chmod(0o755)
    environ = {
        **os.environ, "RECONCILER_STATE": str(tmp_path / "state"), "NO_COLOR": "1",
        "RECONCILER_ALLOW": f"hook:{hook.parent}/*",
    }  # fmt: skip
    names = {
        "environments/move": str(env), "mm2.properties": str(tmp_path / "mm2.properties"), "msk-to-new": "east-to-west",
        "orders": orders, "orders-.*": f"{orders}-.*", "orders.json": str(tmp_path / "orders.json"),
        "payments": payments, "payments-.*": f"{payments}-.*", "payments.json": str(tmp_path / "payments.json"),
    }  # fmt: skip

    def reconciler(words: list[str]) -> subprocess.CompletedProcess[str]:
        unasked = ["--yes"] if words[0] == "takeover" or "apply" in words[:2] else []
        command = [sys.executable, "-m", "reconciler", *words, *unasked]
        return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=400, check=False)

    def done(words: list[str], *codes: int) -> str:
        ended = reconciler(words)
        said = ended.stdout + ended.stderr
        assert ended.returncode in codes, f"{words}: {ended.returncode}\n{said}"
        assert "Traceback" not in said
        return said

    (take_over, status, again, plan, apply, plan_one, apply_one, plan_two, apply_two) = commands(names)
    for topic in (orders, payments):
        create_topic(secure["east"], topic, partitions=PARTITIONS)
    applications: list[Application] = []
    try:
        with allowed(secure, (orders, payments)):
            applications += [Application(clients, orders, 1), Application(clients, payments, 5)]
            with mirrormaker(secure, f"{orders},{payments}", tmp_path, more) as process:
                log = tmp_path / "mm2.log"
                until(lambda: all(len(each.numbers("r")) > 100 for each in applications), applications[0].said)
                until(lambda: "Stop MirrorMaker 2 now" in done(take_over, 1, 3), log)
                process.send_signal(SIGTERM)
                process.wait(60)
            until(lambda: reconciler(take_over).returncode == 0, log)  # its group is not empty until its session ends
            until(lambda: "OK: 1 of 1 mirror running" in reconciler(status).stdout, log)
            assert "Equal" in done(again, 0)
            (env / "cutover.yaml").write_text(f"cutover: {{hooks: {{switch: {{command: [{hook}]}}}}}}\n")
            done(plan, 0)
            done(apply, 0)

            two = applications[1]
            done(plan_one, 2)
            done(apply_one, 0)
            assert (clients / f"{orders}.address").read_text().strip() == "west"
            assert (clients / f"{payments}.address").read_text().strip() == "east", "it is of the other wave"
            before = len(two.numbers("w"))
            until(lambda: len(two.numbers("w")) > before + 50, two.said)
            done(plan_two, 2)
            done(apply_two, 0)
            for each in applications:
                after = len(each.numbers("w"))
                until(lambda each=each, after=after: len(each.numbers("w")) > after + 50, each.said)  # type: ignore[misc]
            for each in applications:
                each.end()
                written = each.numbers("w")
                assert written == list(range(len(written)))
                assert sorted(each.numbers("r")) == written, "none is lost, none is read twice"
                assert each.longest_stop_s < LONGEST_STOP_S
                sys.stdout.write(f"{each.topic}: {len(written)} records, longest stop {each.longest_stop_s:.1f} s\n")
    finally:
        for each in applications:
            each.process.kill()
            each.process.wait(60)
            sys.stdout.write(f"== {each.topic}\n{each.said.read_text()[-600:]}")
        reconciler(["mirror", "stop", str(env)])


ENVIRONMENT = """
topics:
  {orders}: {{clusters: [east], partitions: 3, replication_factor: 1}}
  {payments}: {{clusters: [east], partitions: 3, replication_factor: 1}}
flows:
  {orders}:
    source: east
    target: west
    topics: [{orders}, {payments}]
    naming: {{policy: identity}}
    replication_factor: 1
    lanes: 1
    offsets: {offsets}
    groups: {{include: ['{orders}.*', '{payments}.*']}}
mirrors:
  west: {{}}
"""
STEPS = ("before", "fence", "verify-fence", "drain", "pause", "groups", "switch", "clients", "tail")


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("profile", "offsets"), [("secure", "same"), ("plain", "translated")])
def test_java_clients_move_while_the_command_is_killed_at_each_step(
    request: pytest.FixtureRequest, profile: str, offsets: str, unique: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Without an authorizer nothing refuses writes: the hook *before* holds the producers."""
    sandbox: Sandbox = request.getfixturevalue(profile)
    secured, (orders, payments) = profile == "secure", (f"{unique}orders", f"{unique}payments")
    clients, folder, hook = tmp_path / "clients", tmp_path / unique, tmp_path / "hooks" / "moves"
    for made in (clients, folder, hook.parent):
        made.mkdir()
    holds = "" if secured else f'[ $RECONCILER_HOOK = before ] && touch "{clients}/$topic.held"\n'
    hook.write_text(
        f'#!/bin/sh\nfor topic in $(echo "$RECONCILER_TOPICS" | tr , " ")\ndo\n{holds}'
        f'[ $RECONCILER_HOOK = before ] || {{ echo west > "{clients}/$topic.new"\n'
        f'mv "{clients}/$topic.new" "{clients}/$topic.address"; rm -f "{clients}/$topic.held"; }}\ndone\n'
    )
    hook.chmod(0o755)
    lines = secured_clusters(sandbox, monkeypatch) if secured else ["clusters:"]
    for name, handle in sandbox.clusters.items():
        settings = java_settings(handle, "user", handle.passwords["user"]) if secured else {}
        settings["bootstrap.servers"] = handle.bootstrap_servers
        (clients / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not secured:
            lines.append(f"  {name}: {{bootstrap_servers: [{handle.bootstrap_servers}]}}")
    hooks = f"before: {{command: [{hook}]}}, switch: {{command: [{hook}]}}"
    running = environment(sandbox, folder, lines, (orders, payments), offsets, hooks, hook.parent)
    plan = tmp_path / "cutover.json"
    applications: list[Application] = []
    try:
        running.apply()
        with allowed(sandbox, (orders, payments)) if secured else nullcontext():
            applications += [Application(clients, orders, 1), Application(clients, payments, 5)]
            for each in applications:
                until(lambda each=each: len(each.numbers("r")) > 100, each.said)  # type: ignore[misc]
            words = ("--within", "150s", "--clients", "90s")
            running.reconciler("cutover", "plan", str(folder), orders, "--out", str(plan), *words, code=2)
            for step in STEPS:
                assert cut_over(running, plan, step) == -SIGKILL, step
            assert cut_over(running, plan, "") == 0
            for each in applications:
                read_once(each)
                assert secured == ("x " in each.said.read_text()), "a fence refused writes"
    finally:
        ended(applications)
        running.stop()


@pytest.mark.timeout(1500)
def test_clients_behind_a_proxy_keep_their_address(
    secure: Sandbox, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook writes the file from which the proxy gets its target; producers outlive the switch. No transactions:
    this proxy speaks Kafka 3.9's protocol, in which brokers with transaction.version 2 refuse them."""
    (orders, payments), who, port = (f"{unique}orders", f"{unique}payments"), f"{unique}app", free_ports()
    clients, folder = tmp_path / "clients", tmp_path / unique
    clients.mkdir()
    folder.mkdir()
    (clients / "target").write_text("east")
    for name, handle in secure.clusters.items():
        (clients / f"{name}.yaml").write_text(PROXY.format(servers=handle.bootstrap_servers, ca=handle.ca, port=port))
        login = UserScramCredentialUpsertion(who, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"the same")
        admin = AdminClient(handle.super_client())
        admin.alter_user_scram_credentials([login])[who].result(30)
    settings = java_settings(secure["east"], who, "the same")
    settings |= {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SASL_PLAINTEXT"}
    (clients / "proxy.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    hooks = f"switch: {{file: {{path: {clients}/target, text: west}}}}"
    lines = secured_clusters(secure, monkeypatch)
    running = environment(secure, folder, lines, (orders, payments), "same", hooks, clients)
    plan, applications = tmp_path / "cutover.json", list[Application]()
    command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{jars.ensure(release=KROXYLICIOUS)}{os.sep}*", str(JAVA / "Proxy.java"), str(clients)]
    log = tmp_path / "proxy.log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as proxy:
        try:
            running.apply()
            until(lambda: "at east" in log.read_text(), log)
            with allowed(secure, (orders, payments), who):
                applications += [Application(clients, orders, 1, "proxy"), Application(clients, payments, 1, "proxy")]
                for each in applications:
                    until(lambda each=each: len(each.numbers("r")) > 100, each.said)  # type: ignore[misc]
                words = ("--within", "150s", "--clients", "150s")
                running.reconciler("cutover", "plan", str(folder), orders, "--out", str(plan), *words, code=2)
                assert cut_over(running, plan, "") == 0
                assert "at west" in log.read_text()
                for each in applications:
                    read_once(each)
        finally:
            ended(applications)
            running.stop()
            proxy.kill()


PROXY = """
virtualClusters:
  clients:
    targetCluster: {{bootstrap_servers: '{servers}', tls: {{trust: {{storeFile: {ca}, storeType: PEM}}}}}}
    clusterNetworkAddressConfigProvider:
      type: PortPerBrokerClusterNetworkAddressConfigProvider
      config: {{bootstrapAddress: 'localhost:{port}', numberOfBrokerPorts: 3}}
"""


def environment(
    sandbox: Sandbox, folder: Path, lines: list[str], topics: tuple[str, str], offsets: str, hooks: str, allows: Path
) -> Running:
    """``lines``: its clusters; ``allows``: the folder of its hooks."""
    text = "\n".join(lines).replace("mirror: {sasl.username: mirror", "mirror: {sasl.username: admin")
    text = text.replace("_MIRROR_PASSWORD", "_ADMIN_PASSWORD")
    text += ENVIRONMENT.format(orders=topics[0], payments=topics[1], offsets=offsets)
    (folder / "topology.yaml").write_text(f"{text}cutover: {{hooks: {{{hooks}}}}}\n")
    environ = {"RECONCILER_STATE": str(folder.parent / "state"), "RECONCILER_ALLOW": f"hook:{allows}/*"}
    return Running(folder, sandbox.clusters, environ)


def read_once(application: Application) -> None:
    """After some more records."""
    after = len(application.numbers("w"))
    until(lambda: len(application.numbers("w")) > after + 50, application.said)
    application.end()
    written = application.numbers("w")
    assert written == list(range(len(written)))
    assert sorted(application.numbers("r")) == written, "none is lost, none is read twice"


def ended(applications: list[Application]) -> None:
    for each in applications:
        each.process.kill()
        each.process.wait(60)
        sys.stdout.write(f"== {each.topic}\n{each.said.read_text()[-600:]}")


def cut_over(running: Running, plan: Path, step: str) -> int:
    """The exit code. ``step``: kills the command at the first line that names it."""
    words = [sys.executable, "-m", "reconciler", "cutover", "apply", str(running.folder), "--plan", str(plan), "--yes"]
    environ = {**os.environ, **running.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stdout.write(line)
            if step and line.startswith(f"{step} "):
                process.kill()
    return process.returncode

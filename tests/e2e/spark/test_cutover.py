"""A cut-over of live clients on secure clusters: the real job, real rules, the command killed between its steps.

What must hold: a record that a cluster accepted is read once by the group, wherever it reads it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.brokers import certificates
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.state.environment_records import read_holder
from reconciler.backends.state.lock import KafkaLock, this_process
from reconciler.model.environment.topology import Principal
from tests.support.access.acls import rules
from tests.support.access.role_users import kafka_filter, kafka_rule
from tests.support.clusters import CreateTopic, member, real_cluster, secured_clusters
from tests.support.jobs.environments import Running, exactly, on_sandbox
from tests.support.jobs.flow_of_records import MovingConsumer, MovingProducer
from tests.support.jobs.frozen_broker import freeze, thaw
from tests.support.jobs.verify_runs import until
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]
REST = """\
topics:
  {topic}: {{clusters: [east], partitions: 3, replication_factor: 1, labels: {{owner: shop}}}}
flows:
  {topic}:
    source: east
    target: west
    topics: ['{topic}.*']
    naming: {{policy: identity}}
    replication_factor: 1
    lanes: 1
    offsets: {offsets}
    groups: {{include: ['{topic}.*']}}
    copies: read_only
mirrors:
  west: {{}}
"""
TWO_WAYS = """\
topics:
  {topic}: {{clusters: [east, west], partitions: 3, replication_factor: 1}}
flows:
  {topic}: &both_ways
    source: east
    target: west
    topics: ['{topic}']
    naming: {{policy: identity}}
    provenance: local
    replication_factor: 1
    lanes: 1
    groups: {{include: ['{topic}.*']}}
  {topic}-back: {{<<: *both_ways, source: west, target: east}}
access:
  - {{role: mirror, principal: '{mirror}', flows: [{topic}, {topic}-back]}}
  - {{principal: '{mirror}', clusters: [east, west], resource: group, names: [{topic}-billing], operations: [read]}}
mirrors:
  east: {{}}
  west: {{}}
"""


class Clients:
    """Go where ``address`` says, a function or the attribute."""

    def __init__(self, clusters: Sandbox, topic: str, address: Callable[[], str] | None = None) -> None:
        self.address = "east"
        at = address or (lambda: self.address)
        settings: Callable[[], Mapping[str, str]] = lambda: clusters[at()].client("user")  # noqa: E731
        self.producer = MovingProducer(settings, topic, 3)
        self.consumer = MovingConsumer(settings, topic, f"{topic}-billing")

    def start(self, running: Running) -> None:
        self.producer.start()
        self.consumer.start()
        self.consumer.await_read(100)
        until("the mirror keeps up", lambda: self.lag(running) < 300, 240)

    def lag(self, running: Running) -> int:
        told = json.loads(running.reconciler("status", str(running.folder), "--format", "json"))
        lags = re.findall(r'"records_lag": (\d+)', json.dumps(told))
        return max(map(int, lags), default=10**9)

    def stop(self) -> None:
        self.producer.over.set()
        self.producer.join(40)
        self.consumer.await_read(len(self.producer.accepted))
        self.stop_at_once()

    def stop_at_once(self) -> None:
        for thread in (self.producer, self.consumer):
            thread.over.set()
            thread.join(40)


@pytest.fixture
def access(secure: Sandbox, unique: str) -> Iterator[None]:
    """Of the clients."""
    admins = {name: AdminClient(handle.super_client()) for name, handle in secure.clusters.items()}
    allowed = rules(
        f"allow User:user write topic {unique}",
        f"allow User:user read topic {unique}",
        f"allow User:user read group {unique}-billing",
    )
    for admin in admins.values():
        for made in admin.create_acls([kafka_rule(each) for each in allowed]).values():
            made.result(30)
    yield
    for admin in admins.values():
        kept = rules(f"deny User:user write topic {unique}")
        for gone in admin.delete_acls([kafka_filter(each) for each in (*allowed, *kept)]).values():
            gone.result(30)


@pytest.fixture
def environment(
    secure: Sandbox, access: None, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def make(offsets: str, hooks: str = "", *, probed: bool = False) -> Running:
        folder = tmp_path / unique  # an environment and a flow of its own: another test's journals and pauses count not
        folder.mkdir()
        lines = secured_clusters(secure, monkeypatch)
        lines = [line.replace("mirror: {sasl.username: mirror", "mirror: {sasl.username: admin") for line in lines]
        text = "\n".join(lines).replace("_MIRROR_PASSWORD", "_ADMIN_PASSWORD")
        if probed:
            prefix = "SANDBOX_EAST_USER_PASSWORD"
            login = f'      probe: {{sasl.username: user, sasl.password: "${{env:{prefix}}}"}}'
            text = text.replace("\n  west:", f"\n{login}\n  west:")
        text += f"\n{REST.format(topic=unique, offsets=offsets)}"
        (folder / "topology.yaml").write_text(text + hooks)
        running = Running(folder, secure.clusters, {"RECONCILER_STATE": str(tmp_path / "state")})
        started.append(running)
        running.apply()
        return running

    yield make
    for running in started:
        running.stop()


def cut_over(
    running: Running, plan: Path, heard: Callable[[str], bool], command: str = "apply"
) -> tuple[int, dict[str, Any], str]:
    """``heard``: of each line that is told; True kills the command. Exit code, report, and what was told."""
    words = [sys.executable, "-m", "reconciler", "cutover", command, str(running.folder), "--plan", str(plan)]
    environ = {**os.environ, **running.environ, "PYTHONUNBUFFERED": "1"}
    lines: list[str] = []
    with subprocess.Popen(
        [*words, "--yes", "--format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environ,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            lines.append(line)
            if heard(line):
                process.kill()
        out = process.stdout.read()
    told = "".join(lines)
    assert "Traceback" not in told
    return process.returncode, json.loads(out) if out.strip() else {}, told


def steps(report: Mapping[str, Any]) -> dict[str, str]:
    return {step["name"]: step["result"] for step in report["steps"]}


def planned(running: Running, plan: Path, *more: str) -> dict[str, Any]:
    words = ["cutover", "plan", str(running.folder), running.name, "--out", str(plan), "--hold", "2s"]
    words += ["--within", "150s", *more]  # a busy machine may let the mirror stand for a minute
    made: dict[str, Any] = json.loads(running.reconciler(*words, "--format", "json", code=2))
    return made


@pytest.mark.long
@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_live_clients_move_while_the_command_is_killed_at_its_steps(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path, offsets: str
) -> None:
    running, plan = environment(offsets), tmp_path / "cutover.json"
    clients = Clients(secure, unique)
    clients.start(running)
    made = planned(running, plan, "--clients", "60s")
    (topic,) = made["topics"]
    assert topic["rate"] > 0
    assert "User:user" in topic["writers"]
    assert len(topic["producers"]) == 3, "one producer, seen in each partition"
    (group,) = made["groups"]
    assert [member["client_id"] for member in group["members"]] == ["rdkafka"]

    # Before the switch clients do not notice a rollback, but for the refusals.
    killed_at("drain", running, plan)
    before = len(clients.producer.accepted)
    code, report, _ = cut_over(running, plan, lambda _: False, "rollback")
    assert (code, steps(report)["unfence"]) == (0, "done")
    until("producers continue", lambda: len(clients.producer.accepted) > before + 50)

    assert steps(report)["restore"] == "already", "nothing was lifted yet"
    for step in ("fence", "verify-fence", "pause", "groups", "lift"):
        killed_at(step, running, plan)

    def switches(line: str) -> bool:
        if line.startswith("switch"):
            clients.address = "west"
            return True
        return False

    code, _, _ = cut_over(running, plan, switches)
    assert code == -9
    code, report, told = cut_over(running, plan, lambda _: False)
    assert code == 0, (report, told)
    assert {name: word for name, word in steps(report).items() if name in ("clients", "tail")} == {
        "clients": "done",
        "tail": "done",
    }
    assert not report["findings"]
    before = len(clients.producer.accepted)
    until("producers continue", lambda: len(clients.producer.accepted) > before + 50)
    clients.stop()
    assert clients.producer.refused, "the fence was met"
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))

    # From now on the destination has records of its own.
    code, report, _ = cut_over(running, plan, lambda _: False, "rollback")
    assert code == 3
    assert sum(report["own_records"].values()) > 50


def ready(
    environment: Callable[..., Running], secure: Sandbox, unique: str, folder: Path, *words: str
) -> tuple[Running, Path, Clients]:
    """Clients at work at the origin, and the plan of a cut-over that was given ``words``."""
    running, plan, clients = environment("translated"), folder / "cutover.json", Clients(secure, unique)
    clients.start(running)
    planned(running, plan, *words)
    return running, plan, clients


def killed_at(step: str, running: Running, plan: Path) -> None:
    code, _, told = cut_over(running, plan, lambda line: line.startswith(f"{step} "))
    assert code == -9, told


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_after_a_kill_at_each_step_a_rollback_lets_clients_go_on(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    running, plan, clients = ready(environment, secure, unique, tmp_path, "--clients", "60s")
    for step in ("fence", "verify-fence", "drain", "pause", "groups", "lift", "switch"):
        killed_at(step, running, plan)
        code, report, told = cut_over(running, plan, lambda _: False, "rollback")
        # From the switch on the group's position is set on the origin too, which a member that is still there prevents.
        stays = [each["note"] for each in report["groups"]] == ["it has members there"]
        assert code == 0 or (step == "switch" and stays), (step, report, told)
        written, read = len(clients.producer.accepted), len(clients.consumer.read)
        until("producers continue", lambda at=written: len(clients.producer.accepted) > at + 20)  # type: ignore[misc]
        clients.consumer.await_read(read + 20)
        until("the mirror continues", lambda: clients.lag(running) < 300, 240)
    code, report, _ = cut_over(running, plan, lambda _: False, "rollback")
    assert (code, report["steps"]) == (0, []), "it is taken back already"
    clients.stop()
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))


def test_hooks_move_the_clients_and_the_stop_of_writes_is_short_and_reported(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    address, plan = tmp_path / "hooked" / "address", tmp_path / "cutover.json"
    address.parent.mkdir()
    address.write_text("east")
    program = address.parent / "program"
    program.write_text(f'#!/bin/sh\necho "$RECONCILER_HOOK $RECONCILER_DESTINATION" >> {address.parent}/ran\n')
    program.chmod(0o755)
    hooks = f"cutover: {{hooks: {{before: {{command: [{program}]}}, after: {{command: [{program}]}}, "
    hooks += f"switch: {{file: {{path: {address}, text: west}}}}}}}}\n"
    running = environment("same", hooks, probed=True)
    clients = Clients(secure, unique, address.read_text)
    clients.start(running)
    words = ["cutover", "plan", str(running.folder), running.name, "--out", str(plan), "--format", "json"]
    blocked = json.loads(running.reconciler(*words, code=3))
    stops = {check["code"]: check["todo"] for check in blocked["checks"] if check["level"] == "stops"}
    assert f"hook:{program}" in stops["hook"]
    running.environ["RECONCILER_ALLOW"] = f"hook:{address.parent}/*"
    made = planned(running, plan, "--clients", "60s", "--soak", "3s")
    assert made["gates"]["mirrors"] == "healthy", "of a rollout, by default"
    assert made["hooks"]["switch"] == f"writes {address}: west"
    assert made["probe"] == "User:user"
    assert "probe" not in {check["code"] for check in made["checks"]}, "it may write as long as no fence stands"

    code, report, told = cut_over(running, plan, lambda _: False)
    assert code == 0, (report, told)
    assert (address.parent / "ran").read_text() == "before west\nafter west\n"
    assert report["steps"][-1]["name"] == "soak"
    assert report["steps"][-1]["text"] == "all gates held for 3 s"
    assert "a write as User:user is refused" in next(s["text"] for s in report["steps"] if s["name"] == "verify-fence")
    clients.stop()
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))
    assert report["writes_stopped_s"] < 60
    code, again, _ = cut_over(running, plan, lambda _: False)
    assert (code, again["steps"]) == (0, []), "a failback may have led clients home since"
    assert "is done" in again["verdict"]
    each = ", ".join(f"{step['name']} {step['seconds']:.1f}" for step in report["steps"])
    sys.stdout.write(f"writes stopped {report['writes_stopped_s']:.1f} s: {each}; load {os.getloadavg()[0]:.0f}\n")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_between_two_ways_producers_are_fenced_by_name_and_the_mirror_s_whole_subject_is_spared(
    secure: Sandbox, access: None, unique: str, tmp_path: Path
) -> None:
    """All of the program logs in with certificates; brokers name the mirror by the whole subject of its own."""
    folder = tmp_path / unique
    folder.mkdir()
    text = ["clusters:"]
    for handle in secure.clusters.values():
        text += [f"  {handle.name}:", f"    bootstrap_servers: [{handle.mtls_bootstrap_servers}]"]
        text += [
            f"    cluster_id: {json.dumps(handle.cluster_id)}",
            "    client: {security.protocol: SSL, ssl.ca.location: ",
        ]
        text[-1] += f"{handle.ca}}}"
        text += ["    principals:"]
        for role, name in {"plan": "admin", "apply": "admin", "mirror": certificates.WHOLE_SUBJECT}.items():
            at = handle.ca.parent / name
            text.append(f"      {role}: {{ssl.certificate.location: {at}.pem, ssl.key.location: {at}.key}}")
    rest = TWO_WAYS.format(topic=unique, mirror=certificates.WHOLE_SUBJECT_PRINCIPAL)
    (folder / "topology.yaml").write_text("\n".join([*text, rest]), encoding="utf-8")
    running, plan = (
        Running(folder, secure.clusters, {"RECONCILER_STATE": str(tmp_path / "state")}),
        tmp_path / "plan.json",
    )
    clients = Clients(secure, unique)
    try:
        running.apply()
        clients.start(running)
        made = planned(running, plan, "--clients", "60s")
        assert made["fence"]["spared"] == [certificates.WHOLE_SUBJECT_PRINCIPAL]
        assert {rule["principal"] for rule in made["fence"]["rules"]} == {"User:user"}

        def switches(line: str) -> bool:
            if line.startswith("switch"):
                clients.address = "west"
            return False

        killed_at("verify-fence", running, plan)
        code, report, told = cut_over(running, plan, switches)
        assert code == 0, (report, told)
        before = len(clients.producer.accepted)
        until("producers continue", lambda: len(clients.producer.accepted) > before + 50)
        clients.stop()
        assert clients.producer.refused, "the fence was met"
        assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))
    finally:
        clients.stop_at_once()
        running.stop()


@pytest.mark.long
def test_clients_that_break_the_rules_are_named_and_nothing_moves(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    """A super user that writes on; a transaction left open; groups of other kinds, and one that has moved already; a
    mirror that is stopped."""
    running, plan = environment("same"), tmp_path / "cutover.json"
    clients, here, there = Clients(secure, unique), ExitStack(), ExitStack()
    clients.start(running)
    east, west, groups = secure["east"], secure["west"], [f"{unique}-{kind}" for kind in ("new", "static", "moved")]
    with here, there:
        here.enter_context(member(east, groups[0], unique, "consumer"))
        here.enter_context(member(east, groups[1], unique, "classic", group_instance_id="one"))
        there.enter_context(member(west, groups[2], unique, "classic"))
        with member(east, groups[2], unique, "classic"), member(east, f"connect-{unique}", unique, "classic"):
            pass
        quick = ("--clients", "90s", "--catch-up", "3s", "--within", "15s")
        made = planned(running, plan, *quick)
        seen = {group["group"]: group for group in made["groups"]}
        assert (seen[groups[0]]["kind"], len(seen[groups[0]]["members"])) == ("consumer", 1)
        checks = {check["code"]: check["text"] for check in made["checks"]}
        assert f"connect-{unique} (a connector of Kafka Connect" in checks["left-out"]
        assert "outside of Kafka" in checks["same-offsets"]

        # Rules do not bind a super user.
        writer = Producer({**east.super_client(), "transactional.id": f"{unique}-super"})
        writer.init_transactions(30)
        writer.begin_transaction()
        writer.produce(unique, b"aborted", partition=0)
        writer.flush(30)
        code, report, told = cut_over(running, plan, lambda _: False)
        assert (code, steps(report)["verify-fence"]) == (5, "failed"), told
        assert f"open transactions: {unique}-super in {unique}-0" in told
        assert "pause" not in steps(report)
        writer.abort_transaction(30)
        rest, over = Producer(east.super_client()), Event()
        stubborn = Thread(
            target=lambda: [
                rest.produce(unique, b"s", partition=1) or rest.flush(9) for _ in iter(lambda: over.wait(0.1), True)
            ]
        )
        stubborn.start()
        code, _, told = cut_over(running, plan, lambda _: False)
        over.set()
        stubborn.join(30)
        assert code == 5, "the fence of the first run stands, so that 1 would not be true"
        assert f"still written: {unique}-1 from" in told
        assert "take super.users from them" in told
        assert cut_over(running, plan, lambda _: False, "rollback")[0] == 0
    clients.stop()
    assert b"aborted" not in clients.consumer.read
    mine = [value for value in clients.consumer.read if value != b"s"]
    assert sorted(map(int, mine)) == list(range(len(clients.producer.accepted)))
    running.reconciler("mirror", "stop", str(running.folder))
    words = ["cutover", "plan", str(running.folder), running.name, "--format", "json"]
    stops = {
        check["code"] for check in json.loads(running.reconciler(*words, code=3))["checks"] if check["level"] == "stops"
    }
    assert stops & {"job", "paused"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_mirror_that_stalls_in_the_drain_is_reported_and_a_rollback_needs_none_that_copies(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    """The job is frozen before the fence is made, so records are left to copy."""
    running, plan, clients = ready(environment, secure, unique, tmp_path, "--within", "20s")
    [file] = (tmp_path / "state").rglob("supervisor.json")
    job = json.loads(file.read_text())["job_pid"]

    def stalls(line: str) -> bool:
        if line.startswith("before "):
            signal_job(job, signal.SIGSTOP)
        return False

    try:
        code, report, told = cut_over(running, plan, stalls)
        assert (code, steps(report)["drain"]) == (5, "failed"), told
        assert re.search(rf"{unique} has [1-9][\d,]* of [\d,]+ offsets? left to copy after 20 s", told)
        assert "pause" not in steps(report)
        assert cut_over(running, plan, lambda _: False, "rollback")[0] == 0
    finally:
        signal_job(job, signal.SIGCONT)
    written = len(clients.producer.accepted)
    until("producers continue", lambda: len(clients.producer.accepted) > written + 20)
    until("the mirror continues", lambda: clients.lag(running) < 300, 240)
    clients.stop()
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_a_record_that_a_client_wrote_before_the_pause_is_counted_as_its_own(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path, offsets: str
) -> None:
    """With the same offsets the copy ends where its source does; else the offset map tells the copies."""
    running, plan, clients = environment(offsets), tmp_path / "cutover.json", Clients(secure, unique)
    clients.start(running)
    planned(running, plan)
    killed_at("drain", running, plan)
    early = Producer(secure["west"].super_client())
    early.produce(unique, b"early", partition=0)
    assert early.flush(30) == 0
    killed_at("switch", running, plan)
    code, report, told = cut_over(running, plan, lambda _: False, "rollback")
    assert (code, report["own_records"]) == (3, {f"{unique}-0": 1}), told
    clients.stop_at_once()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_static_member_is_moved_and_one_that_never_leaves_is_named_then_given_up(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    """Of three groups one moves, one leaves a static member whose session outlives the test, and one stays on the
    origin until the cut-over is over."""
    running, plan, given_up = environment("translated"), tmp_path / "cutover.json", tmp_path / "given-up.json"
    clients, addresses = Clients(secure, unique), {"static": "east", "staying": "east"}
    patient = dict.fromkeys(("session.timeout.ms", "max.poll.interval.ms"), 1_200_000)
    more = {"static": {"group.instance.id": "one", **patient}, "staying": {}}

    def reader(kind: str) -> MovingConsumer:
        at: Callable[[], Mapping[str, Any]] = lambda: secure[addresses[kind]].client("admin") | more[kind]  # noqa: E731
        return MovingConsumer(at, unique, f"{unique}-{kind}")

    static, staying = reader("static"), reader("staying")
    for thread in (static, staying):
        thread.start()
    clients.start(running)
    staying.await_read(100)
    static.await_read(100)
    planned(running, plan, "--catch-up", "5s", "--clients", "90s")

    def switches(line: str) -> bool:
        if line.startswith("switch"):
            clients.address = addresses["static"] = "west"
        return False

    code, report, told = cut_over(running, plan, switches)
    assert (code, steps(report)["clients"]) == (5, "failed"), told
    assert f"not seen on west within 90 s: groups {unique}-staying. The way back" in told  # and no other
    running.reconciler(
        "cutover", "plan", str(running.folder), unique, "--out", str(given_up), "--clients", "0s", code=2
    )
    code, report, told = cut_over(running, given_up, lambda _: False)
    assert (code, steps(report)["clients"]) == (0, "skipped"), (report, told)
    assert f"not waited for, and not seen yet: groups {unique}-staying" in told
    admin = AdminClient(secure["east"].super_client())
    there = admin.describe_consumer_groups([f"{unique}-static"])[f"{unique}-static"].result(30)
    assert [member.group_instance_id for member in there.members] == ["one"], "it counts on the origin to the end"

    addresses["staying"] = "west"
    clients.stop()
    everything = list(range(len(clients.producer.accepted)))
    for each in (clients.consumer, static, staying):
        each.await_read(len(everything))
        each.over.set()
        each.join(40)
        assert sorted(map(int, each.read)) == everything


def signal_job(session: int, number: signal.Signals) -> None:
    """To each process of the session: Spark's Python workers have a process group of their own."""
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, ProcessLookupError):
            if os.getsid(pid := int(entry.name)) == session:
                os.kill(pid, number)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_hooks_that_fail_lost_clusters_and_a_stolen_lock_end_a_run_and_the_next_goes_on(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    """The hook hangs, fails, and does its work too late. Meanwhile either cluster is lost behind each step, dead or
    silent, and comes back."""
    hooked, plan = tmp_path / "hooked", tmp_path / "cutover.json"
    hooked.mkdir()
    address, turns, program = (hooked / name for name in ("address", "turns", "program"))
    address.write_text("east")
    program.write_text(f"""#!/bin/sh
echo turn >> {turns}
case $(wc -l < {turns}) in
  1) sleep 60 ;;
  2) echo no right to change DNS; exit 7 ;;
  3) printf west > {address}.new && mv {address}.new {address}; sleep 60 ;;
esac
printf west > {address}.new && mv {address}.new {address}
""")
    program.chmod(0o755)
    running = environment("translated", f"cutover: {{hooks: {{switch: {{command: [{program}], timeout: 3s}}}}}}\n")
    running.environ["RECONCILER_ALLOW"] = f"hook:{hooked}/*"
    clients = Clients(secure, unique, address.read_text)
    clients.start(running)
    planned(running, plan, "--clients", "120s")
    east, west, threads = secure["east"], secure["west"], list[Thread]()

    def silent(cluster: ClusterHandle) -> None:
        freeze(cluster)
        time.sleep(12)
        thaw(cluster)

    def dead(cluster: ClusterHandle) -> None:
        cluster.kill()
        cluster.start()

    def steal(_: ClusterHandle) -> None:
        """As another machine does: a file keeps commands of one machine apart."""
        for thread in threads[:-1]:
            thread.join(60)
        found = (read_holder(real_cluster(each, "apply"), running.name, Principal.APPLY) for each in (east, west))
        home = next(each for each, holder in zip((east, west), found, strict=True) if holder is not None)
        thief = KafkaLock(real_cluster(home, "apply"), running.name, this_process("a test"))
        thief.take("a test steals it")
        thief.release()

    faults = [
        ("fence", silent, east), ("verify-fence", dead, west), ("drain", silent, west), ("pause", dead, east),
        ("groups", steal, east), ("switch", silent, west), ("tail", dead, east),
    ]  # fmt: skip

    def heard(line: str) -> bool:
        if faults and re.match(f"{faults[0][0]} +(done|already)", line):
            _, act, cluster = faults.pop(0)
            threads.append(Thread(target=act, args=[cluster]))
            threads[-1].start()
        return False

    ends: list[int] = []
    everything = ""
    while (ends[-1:] or [1]) != [0] and len(ends) < 20:
        code, _, told = cut_over(running, plan, heard)
        ends.append(code)
        everything += told
        for thread in threads:
            thread.join(60)
    assert not faults, everything
    assert set(ends[:-1]) <= {5, 6}, everything
    assert ends[-1] == 0, everything
    assert "program has not ended within 3 s and was killed" in everything
    assert "program ended with 7: no right to change DNS" in everything
    assert "the lock was taken over by" in everything
    assert len(turns.read_text().split()) == 4, "one that ended with 0 is not run again"
    clients.stop()
    read = Counter(map(int, clients.consumer.read))
    assert sorted(read) == list(range(len(clients.producer.accepted)))
    doubled = {number for number, count in read.items() if count > 1}
    assert doubled <= {*map(int, clients.consumer.unconfirmed)}, (
        "what a member commits while brokers die it reads again"
    )


@pytest.mark.long
def test_a_transaction_left_open_is_aborted_if_asked_and_a_topic_made_meanwhile_stops_it(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path, create_topic: CreateTopic
) -> None:
    running, plan = environment("translated"), tmp_path / "cutover.json"
    east, clients, late = secure["east"], Clients(secure, unique), f"{unique}-late"
    clients.start(running)
    writer = Producer({**east.super_client(), "transactional.id": f"{unique}-open", "transaction.timeout.ms": 300_000})
    may_abort = kafka_rule(*rules(f"allow User:apply write transactional_id {unique}-open"))
    admin = AdminClient(east.super_client())
    admin.create_acls([may_abort])[may_abort].result(30)
    planned(running, plan, "--within", "20s", "--abort-transactions")
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(unique, b"aborted", partition=0)
    writer.flush(30)

    def makes(line: str) -> bool:
        if re.match("drain +(done|already)", line):
            create_topic(east, late)
        return False

    code, _, told = cut_over(running, plan, makes)
    assert code == 5, told
    assert f"aborts the open transaction of {unique}-open" in told
    assert f"topics of {unique} changed during the cut-over: {late}: was absent, is 1 partition" in told
    with pytest.raises(KafkaException):
        writer.commit_transaction(30)
    assert cut_over(running, plan, lambda _: False, "rollback")[0] == 0
    written = len(clients.producer.accepted)
    until("producers go on", lambda: len(clients.producer.accepted) > written + 20)
    clients.stop()
    assert b"aborted" not in clients.consumer.read
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))


@pytest.mark.long
def test_a_plan_that_is_stale_and_one_beside_another_are_refused(
    environment: Callable[..., Running], secure: Sandbox, unique: str, tmp_path: Path
) -> None:
    running, plan, clients = ready(environment, secure, unique, tmp_path, "--clients", "1s")
    stranger = MovingConsumer(lambda: secure["east"].client("admin"), unique, f"{unique}-late")
    stranger.start()
    stranger.await_read(100)
    stranger.over.set()
    stranger.join(40)
    code, _, told = cut_over(running, plan, lambda _: False)
    assert code == 4
    assert f"group {unique}-late: was absent, is c" in told

    first, second = tmp_path / "first.json", tmp_path / "second.json"
    some = planned(running, first, "--clients", "1s", "--label", "owner=shop", "--groups", f"{unique}-bill.*")
    assert [group["group"] for group in some["groups"]] == [f"{unique}-billing"]
    [left] = [check["text"] for check in some["checks"] if check["code"] == "left-out"]
    assert f"{unique}-late (not chosen by --groups)" in left
    planned(running, second, "--clients", "2s")
    code, report, told = cut_over(running, first, lambda _: False)
    assert (code, steps(report).get("clients")) == (5, "failed"), told
    code, _, told = cut_over(running, second, lambda _: False)
    assert code == 3
    assert "is under way" in told
    paused = running.reconciler("status", str(running.folder), "--format", "json")
    assert "cut over to west" in paused, "its topics alone are paused"
    # The file of the first is lost.
    again = tmp_path / "again.json"
    anew = planned(running, again, "--label", "owner=shop", "--groups", f"{unique}-bill.*")
    [under_way] = [check["todo"] for check in anew["checks"] if check["code"] == "under-way"]
    assert f"--topics {unique} --groups '{unique}-bill.*' --out FILE" in under_way
    code, report, told = cut_over(running, again, lambda _: False, "rollback")
    assert code == 0, (json.dumps(report), told)
    until("the mirror continues", lambda: clients.lag(running) < 300, 240)
    clients.stop()
    assert sorted(map(int, clients.consumer.read)) == list(range(len(clients.producer.accepted)))


@pytest.mark.long
def test_without_an_authorizer_a_whole_flow_moves_with_its_way_back_and_fails_back(
    plain: Sandbox, tmp_path: Path
) -> None:
    """Default names, transactions of which some are aborted, consumers that are stopped."""
    running = on_sandbox("active-active", tmp_path, {"us": plain["east"], "eu": plain["west"]}, {})
    everywhere, plan = r"(us\.|eu\.)?orders", tmp_path / "cutover.json"
    try:
        running.apply()
        first = running.write("us", "orders", 600)
        read = [running.read("us", "billing", everywhere, 250)]
        words = ["us-to-eu", "--out", str(plan), "--hold", "1s", "--clients", "0s"]
        made = json.loads(
            running.reconciler("cutover", "plan", str(running.folder), *words, "--format", "json", code=2)
        )
        fence = next(check for check in made["checks"] if check["code"] == "fence")
        assert "no authorizer" in fence["text"]
        code, report, told = cut_over(running, plan, lambda _: False)
        assert code == 0, (report, told)
        assert (steps(report)["fence"], steps(report)["tail"]) == ("skipped", "done")
        assert steps(report)["start"] in ("done", "already")
        [group] = [each for each in report["groups"] if each["group"] == "billing"]
        assert (group["again"], group["missed"], group["exact"]) == (0, 0, True)

        second = running.write("eu", "orders", 300)
        read.append(running.read("eu", "billing", everywhere, 350))
        code, report, _ = cut_over(running, plan, lambda _: False, "rollback")
        assert code == 3
        assert sum(report["own_records"].values()) == len(second)
        refused = running.reconciler(
            "failback", str(running.folder), "us-to-eu", "--diverged", "discard", code=1, told=True
        )
        assert "flow us-to-eu does not keep offsets" in refused, "what was never copied travels on resume"
        back = running.command("reconciler failback environments/active-active us-to-eu --yes")
        assert all((each["read_again"], each["missed"]) == (0, 0) for each in back["groups"])
        third = running.write("us", "orders", 60)
        read.append(running.read("us", "billing", everywhere, 10_000))
        assert exactly(read, [*first, *second, *third])
    finally:
        running.stop()

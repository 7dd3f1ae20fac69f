"""A changed flow on real brokers and Spark: the new application takes over from the old one under load, and whatever
fails on the way leaves exactly one of them copying."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.status.records import mirror_from_record
from reconciler.errors import RunnerError
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from tests.support.jobs.flow_of_records import Arrivals, Load, assert_all_once_in_order, flowing
from tests.support.jobs.mirror_job import flow, handover, status
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

LONGEST_GAP_S = 2.0
CONF = {"spark.driver.memory": "480m"}
NAME = "replaced"
CANARY = "hunter2-canary"


class Replaced:
    """A mirror with two flows, through the runner as ``apply`` uses it."""

    def __init__(self, sandbox: Sandbox, folder: Path, topics: dict[str, int]) -> None:
        self.east, self.west = sandbox["east"], sandbox["west"]
        self.topics = topics
        self.said: list[str] = []
        self.runner = SparkRunner(folder, {NAME: Mirror(NAME, ("a", "b"), spark_conf=CONF)}, self.status)

    def status(self, mirror: str) -> LiveMirror | None:
        found = status(self.west, mirror)
        return mirror_from_record(json.dumps(found).encode(), int(time.time() * 1000)) if found else None

    def told(self, number: int, **lanes: int) -> str:
        """A hand-over; ``lanes`` by topic, so that a flow is there or not and changed or not."""
        flows = [
            flow(f"{NAME}-{topic}", self.east, self.west, [topic], lanes=count, fingerprint=f"{count:016x}")
            for topic, count in lanes.items()
        ]
        return json.dumps(handover(self.west, NAME, flows) | {"fingerprint": f"{number:016x}"})

    def restart(self, number: int, **lanes: int) -> LiveMirror:
        return self.runner.restart(NAME, self.told(number, **lanes), self.said.append)

    def running(self) -> LiveMirror:
        found = self.runner.observe(NAME)
        assert found.state is JobState.RUNNING, found
        return found

    def gaps(self, arrivals: Arrivals) -> dict[str, float]:
        """The longest time without an arrival of each topic, around the moment at which the new one took over."""
        ago = time.time() - (self.runner.state / NAME / "current").stat().st_mtime
        return {topic: arrivals.longest_gap(topic, time.monotonic() - ago - 1.0) for topic in self.topics}

    def folders(self) -> tuple[RunFolder, RunFolder]:
        return self.runner.folder(NAME), self.runner.other_folder(NAME)


@pytest.fixture(scope="module")
def topics(plain: Sandbox) -> dict[str, int]:
    """Two topics on both clusters, and the status topic."""
    found = {f"replaced{os.getpid()}x": 2, f"replaced{os.getpid()}y": 2}
    made = [(plain["east"], topic) for topic in found] + [(plain["west"], f"east.{topic}") for topic in found]
    for cluster, topic in made:
        admin = AdminClient(cluster.client())  # kept: a client that is collected answers nothing
        admin.create_topics([NewTopic(topic, 2, 1)], operation_timeout=20)[topic].result(30)
    return found


@pytest.fixture(scope="module")
def mirror(plain: Sandbox, topics: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replaced]:
    made = Replaced(plain, tmp_path_factory.mktemp("replaced"), topics)
    _status_topic(made.west)
    x, y = topics
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASSWORD_OF_APPLY", CANARY)
        made.runner.start(NAME, made.told(1, **{x: 2, y: 3}), made.said.append)
    yield made
    made.runner.stop(NAME, made.said.append)
    assert not [folder for folder in made.folders() if folder.pids()]


def _status_topic(cluster: ClusterHandle) -> None:
    admin = AdminClient(cluster.client())
    if "__mirror_status" not in admin.list_topics(timeout=20).topics:
        topic = NewTopic("__mirror_status", 1, 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic], operation_timeout=20)["__mirror_status"].result(30)


@pytest.fixture
def load(mirror: Replaced) -> Iterator[tuple[Load, Arrivals]]:
    with flowing(mirror.east, mirror.west, mirror.topics) as found:
        end = time.monotonic() + 90
        while not all(found[1].at.values()):
            assert time.monotonic() < end
            time.sleep(0.05)
        yield found


def test_a_local_mirror_is_closed_to_others(mirror: Replaced) -> None:
    """Spark's page and its ports faced the network, and the job had every secret of apply."""
    folder = mirror.folders()[0]
    processes = _with_children(folder.pids())
    assert len(processes) > len(folder.pids()), "the JVM of the driver at least"
    opened = _listening(processes)
    assert opened, "Spark's page, the channel"
    assert {address for address in opened if not address.is_loopback} == set()
    for process in processes:
        with suppress(OSError):  # it has ended
            assert CANARY.encode() not in Path(f"/proc/{process}/environ").read_bytes()
    assert (folder.path / "job.log").stat().st_mode & 0o077 == 0
    assert folder.path.stat().st_mode & 0o077 == 0


def _with_children(pids: Iterable[int]) -> set[int]:
    found = set(pids)
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0  # it has ended


def _listening(processes: Iterable[int]) -> set[IPv4Address | IPv6Address]:
    """Addresses of TCP ports; a socket of IPv6 that stands for one of IPv4 counts as that."""
    held = {_led_to(link) for process in processes for link in Path("/proc").glob(f"{process}/fd/*")}
    found: set[IPv4Address | IPv6Address] = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] != "0A" or f"socket:[{words[9]}]" not in held:
                continue
            packed = b"".join(part[::-1] for part in _words_of(bytes.fromhex(words[1].partition(":")[0])))
            address = ip_address(packed)
            found.add(getattr(address, "ipv4_mapped", None) or address)
    return found


def _led_to(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile


def _words_of(packed: bytes) -> Iterator[bytes]:
    return (packed[start : start + 4] for start in range(0, len(packed), 4))


@pytest.mark.long
def test_one_flow_changes_its_lanes_and_none_pauses_for_long(mirror: Replaced, load: tuple[Load, Arrivals]) -> None:
    x, y = mirror.topics
    before, (old, _) = mirror.running(), mirror.folders()
    after = mirror.restart(2, **{x: 5, y: 3})
    time.sleep(1.0)
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # a process gets that much less of the machine
    gaps = mirror.gaps(load[1])
    assert max(gaps.values()) <= LONGEST_GAP_S * crowd, (gaps, crowd)
    assert (after.fingerprint, mirror.running().fingerprint) == ("0" * 15 + "2",) * 2
    assert after.application_id != before.application_id
    assert old.pids() == []
    assert_all_once_in_order(*load, mirror.topics)


def test_one_that_cannot_start_leaves_the_old_one_copying(mirror: Replaced, load: tuple[Load, Arrivals]) -> None:
    before, (old, _) = mirror.running(), mirror.folders()
    x, y = mirror.topics
    mirror.runner.mirrors = {NAME: Mirror(NAME, ("a", "b"), spark_conf={**CONF, "spark.driver.memory": "1x"})}
    with pytest.raises(RunnerError) as refused:
        mirror.restart(3, **{x: 1, y: 1})
    mirror.runner.mirrors = {NAME: Mirror(NAME, ("a", "b"), spark_conf=CONF)}
    assert f"{before.application_id} keeps copying" in str(refused.value)
    assert "1x" in str(refused.value), "the end of its log says why"
    assert mirror.running().application_id == before.application_id
    assert mirror.folders()[0] == old
    assert_all_once_in_order(*load, mirror.topics)


def test_one_that_is_killed_while_it_gets_ready_leaves_the_old_one_copying(
    mirror: Replaced, load: tuple[Load, Arrivals]
) -> None:
    before, (old, new) = mirror.running(), mirror.folders()
    x, y = mirror.topics
    mirror.runner.launch(NAME, mirror.told(4, **{x: 1, y: 1}), new, needs=(f"{NAME}-{x}", f"{NAME}-{y}"))
    until(lambda: new.number("supervisor.json", "job_pid") is not None)
    assert "beside" in mirror.runner.observe(NAME).detail
    job = new.number("supervisor.json", "job_pid")
    assert job is not None
    os.killpg(job, signal.SIGKILL)
    until(lambda: new.word("supervisor.json", "state") == "failed")
    assert mirror.running().application_id == before.application_id
    assert mirror.folders()[0] == old
    assert_all_once_in_order(*load, mirror.topics)


@pytest.mark.long
def test_without_the_cli_the_new_one_takes_over_by_itself_and_a_flow_that_left_is_stopped(
    mirror: Replaced, load: tuple[Load, Arrivals]
) -> None:
    """As when the CLI is killed as soon as it has started the new application."""
    before, (old, new) = mirror.running(), mirror.folders()
    x, y = mirror.topics
    mirror.runner.launch(NAME, mirror.told(5, **{x: 5}), new, needs=(f"{NAME}-{x}",))
    until(lambda: mirror.folders()[0] == new, 200)
    until(lambda: not old.pids(), 60)
    until(lambda: mirror.runner.observe(NAME).fingerprint == "0" * 15 + "5")
    now = mirror.running()
    assert now.application_id != before.application_id
    assert list(now.flows) == [f"{NAME}-{x}"]
    stopped_at = len(load[1].at[y])
    assert_all_once_in_order(*load, {x: mirror.topics[x]})
    assert len(load[1].at[y]) == stopped_at

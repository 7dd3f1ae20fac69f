"""Starts and stops single brokers of a sandbox, and waits until their cluster answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.ports import answers
from reconciler_sandbox.brokers.processes import BrokerProcess
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import class_archive
from reconciler_sandbox.profiles import Profile, SandboxBroker
from reconciler_sandbox.releases import NEWEST, Release

START_SECONDS = 180.0  # one that ends is seen at once; one that is slow has a busy machine


def prepare(
    profile: Profile,
    cluster: str,
    broker: SandboxBroker,
    brokers: Sequence[SandboxBroker],
    command: Sequence[str],
    release: Release = NEWEST,
) -> None:
    """Writes what the broker starts from. ``command`` is the JVM up to the main class; its last word is the folder."""
    *jvm, name = command
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    settings = properties.server(profile, broker, brokers, folder, release)
    if release.zookeeper and "ssl.keystore.location" in settings:
        settings |= _key_in_text(settings.pop("ssl.keystore.location"))
    (folder / "server.properties").write_text(properties.text(settings))
    marks = processes.marks(folder.parent.parent, f"{cluster}/{broker.node_id}")
    words = [*jvm, *marks, logging_flag(folder, release), "kafka.Kafka", str(folder / "server.properties")]
    (folder / "command.json").write_text(json.dumps(words))


def _key_in_text(keystore: str) -> dict[str, str]:
    """Kafka 2.8 takes a key without a password from its settings only, not from a file."""
    mark = "-----BEGIN CERTIFICATE"
    key, _, certificate = Path(keystore).read_text().partition(mark)
    chain = " ".join((mark + certificate).split())
    return {"ssl.keystore.key": " ".join(key.split()), "ssl.keystore.certificate.chain": chain}


def logging_flag(folder: Path, release: Release) -> str:
    """Writes the logging configuration into ``folder``; what a JVM is told of it."""
    if release.logs_with_log4j_1:
        (folder / "log4j.properties").write_text(properties.LOG4J_1)
        return f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"
    (folder / "log4j2.properties").write_text(properties.LOG4J)
    return f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"


def format_storage(java: str, release: Release, cluster_id: str, folders: Sequence[Path]) -> None:
    """Formats the data folders of one KRaft cluster that are not formatted yet. Raises SandboxError."""
    fresh = [folder for folder in folders if not (folder / "data" / "meta.properties").exists()]
    if fresh and not release.features.exists():
        _format_with_kafka(java, release, cluster_id, fresh.pop(0))
    for folder in fresh:
        # The same features for every node, without a JVM each; the broker adds its own directory id.
        features = folder / "data" / release.features_of_data
        features.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(release.features, features)
        meta = f"version=1\ncluster.id={cluster_id}\nnode.id={folder.name.removeprefix('broker-')}\n"
        (folder / "data" / "meta.properties").write_text(meta)


def _format_with_kafka(java: str, release: Release, cluster_id: str, folder: Path) -> None:
    command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *class_archive.flags(release)]
    command += ["-cp", f"{release.jars}{os.sep}*", "kafka.tools.StorageTool"]
    command += ["format", f"--cluster-id={cluster_id}", "-c"]
    command.append(str(folder / "server.properties"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise SandboxError("Kafka's storage could not be formatted", said, "See the lines above.")
    with tempfile.NamedTemporaryFile(dir=release.jars, delete=False) as copy:
        copy.write((folder / "data" / release.features_of_data).read_bytes())
    Path(copy.name).replace(release.features)


def start_broker(folder: Path, node: str) -> None:
    """Starts the prepared broker in ``folder``; does nothing when it runs. ``node`` is ``east/1``."""
    if running_nodes(folder.parent.parent, node):
        return
    processes.start(json.loads((folder / "command.json").read_text()), folder / "broker.log")


def running_nodes(home: Path, prefix: str) -> tuple[BrokerProcess, ...]:
    """Brokers of the sandbox in ``home`` whose node is ``prefix`` (``east/1``) or lies under it (``east``)."""
    return tuple(process for process in processes.find(home) if f"{process.node}/".startswith(f"{prefix}/"))


def running_brokers(home: Path, cluster: str) -> int:
    """How many; a ZooKeeper is none."""
    return sum(process.node.rpartition("/")[2].isdigit() for process in running_nodes(home, cluster))


def stop_broker(home: Path, node: str, grace: float = 20.0) -> None:
    processes.stop(lambda: running_nodes(home, node), grace)


def wait_listening(folder: Path, node: str, broker: SandboxBroker) -> None:
    """Returns when the main listener accepts connections. Raises SandboxError with the log's end if the broker died."""
    deadline = time.monotonic() + START_SECONDS
    while not answers(broker.port):
        keep_starting(folder, node)
        if time.monotonic() > deadline:
            raise _failed(node, f"does not listen on port {broker.port} after {START_SECONDS:.0f} s", folder)
        time.sleep(0.1)


def keep_starting(folder: Path, node: str) -> None:
    """Raises SandboxError with the log's end if the broker died.

    One that was killed is registered at ZooKeeper until its session is over, and Kafka 2.8 ends where it finds itself
    registered already, after its listeners are open: that one is started again, as a supervisor would."""
    if running_nodes(folder.parent.parent, node):
        return
    if not _still_registered(folder):
        raise _failed(node, "ended while starting", folder)
    time.sleep(1)
    start_broker(folder, node)


def wait_answering(
    cluster: str, client: Mapping[str, str], brokers: int, home: Path, watch: Callable[[], None] = lambda: None
) -> None:
    """Returns when ``brokers`` brokers are registered, unfenced and answer. ``watch`` is called meanwhile, again and
    again. Raises SandboxError."""
    deadline = time.monotonic() + START_SECONDS
    seen: str = "no answer"
    while time.monotonic() < deadline:
        watch()
        # A new client each time: an old one waits out its reconnect backoff. Silent, since refusals are expected.
        admin = AdminClient({**client, "log_level": "0", "socket.timeout.ms": "5000"})
        try:
            nodes = admin.describe_cluster(request_timeout=5).result(6).nodes
        except (KafkaException, TimeoutError) as error:
            seen = str(error)
        else:
            if len(nodes) >= brokers:
                return
            seen = f"{len(nodes)} of {brokers} brokers answer"
        time.sleep(0.1)
    why = "Nothing can be read or written there."
    todo = f"Read the logs: {home / cluster}/broker-*/broker.log"
    raise SandboxError(f"cluster {cluster} did not come up in {START_SECONDS:.0f} s: {seen}", why, todo)


def _still_registered(folder: Path) -> bool:
    """Whether the broker's log ends with that."""
    log = folder / "broker.log"
    lines = log.read_text(errors="replace").splitlines()[-60:] if log.exists() else []
    return any("KeeperErrorCode = NodeExists" in line for line in lines)


def _failed(node: str, how: str, folder: Path) -> SandboxError:
    log = folder / "broker.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line for line in lines if " ERROR " in line or "Exception" in line or "Error:" in line] or lines
    end = "\n".join(f"  {line}" for line in telling[-3:])
    return SandboxError(f"broker {node} {how}", end or "Its log is empty.", f"Read its log: {log}")

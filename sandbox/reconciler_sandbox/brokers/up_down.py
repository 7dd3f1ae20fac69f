"""Starts and stops whole sandboxes: all brokers of a profile at once."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient

from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import kerberos, ports, processes, zookeeper
from reconciler_sandbox.brokers import start_stop as control
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import class_archive, jars, prerequisites
from reconciler_sandbox.paths import KAFKA_VERSION, home_of
from reconciler_sandbox.profiles import PROFILES, QUICK_START, Profile, SandboxBroker, cluster_id_of, kdc_port, layout
from reconciler_sandbox.releases import NEWEST, Release, release_named, release_of

_STATE = "sandbox.json"
_DUMP_SECONDS = 120.0
Progress = Callable[[str], None]


def _silent(_: str) -> None:
    return


def profile_named(name: str) -> Profile:
    """Raises SandboxError for an unknown name."""
    if name not in PROFILES:
        raise SandboxError(f"there is no sandbox profile {name!r}", todo=f"Choose one of: {', '.join(PROFILES)}.")
    return PROFILES[name]


@dataclass(frozen=True, slots=True)
class Launch:
    """How one sandbox is started. ``base`` None means the default ports, ``heap`` None the profile's, ``release`` None
    what SANDBOX_KAFKA says."""

    profile: Profile
    home: Path
    base: int | None = None
    heap: str | None = None
    release: Release | None = None

    def release_for(self, cluster: str) -> Release:
        """Raises SandboxError."""
        return self.release or release_of(cluster)


def bring_up(launch: Launch, progress: Progress = _silent) -> Sandbox:
    """Starts what does not run yet and returns when every cluster answers. Data of an earlier run is kept.

    Raises SandboxError: missing Java or jars, a taken port, a broker that does not start.
    """
    prerequisites.java()
    for release in {launch.release_for(cluster) for cluster in launch.profile.clusters}:
        jars.ensure(progress, release)
    sandbox = _described(launch)
    running = {process.node for process in processes.find(launch.home)}
    idle = {
        name: [broker for broker in handle.brokers if f"{name}/{broker.node_id}" not in running]
        for name, handle in sandbox.clusters.items()
    }
    ports.require_free(port for brokers in idle.values() for broker in brokers for port in broker.ports)
    _save(sandbox)
    if launch.profile.kerberos:
        kerberos.start(launch.home, kdc_port(launch.base), next(iter(sandbox.clusters.values())).passwords)
    with ThreadPoolExecutor(len(sandbox.clusters)) as pool:
        started = [pool.submit(_start, launch, handle, idle[name]) for name, handle in sandbox.clusters.items()]
        for future in started:
            future.result()
    return sandbox


def _described(launch: Launch) -> Sandbox:
    """The handle before anything runs; cluster ids and passwords of an earlier run on the same data are kept."""
    before = found_in(launch.home)
    clusters = {}
    for name, brokers in layout(launch.profile, launch.base).items():
        old = before.clusters.get(name) if before else None
        cluster_id = old.cluster_id if old else cluster_id_of(launch.profile.name, name)
        passwords = dict(old.passwords) if old else _passwords(launch.profile)
        kafka = launch.release_for(name)
        _require_possible(launch.profile, kafka, old)
        clusters[name] = ClusterHandle(
            name, launch.home, cluster_id, brokers, MappingProxyType(passwords), kafka.version
        )
    return Sandbox(launch.profile.name, launch.home, MappingProxyType(clusters))


def _require_possible(profile: Profile, release: Release, before: ClusterHandle | None) -> None:
    if profile.secure and not release.scram:
        why = "Its users log in by SCRAM, which brokers with KRaft have since Kafka 3.5 (KIP-900)."
        raise SandboxError(f"the sandbox {profile.name} cannot run on Kafka {release.version}", why, "Choose another.")
    if before is not None and release_named(before.kafka).number > release.number:
        raise SandboxError(
            f"the data of {before.name} in {before.home} was written by Kafka {before.kafka}, not {release.version}",
            "An older broker does not start on data of a newer one.",
            f"`reconciler sandbox down --profile {profile.name} --clear` removes the data.",
        )


def _passwords(profile: Profile) -> dict[str, str]:
    if not profile.secure:
        return {}
    from reconciler_sandbox.brokers.acls import PRINCIPALS

    return {principal: secrets.token_urlsafe(18) for principal in PRINCIPALS}


def _start(launch: Launch, handle: ClusterHandle, idle: list[SandboxBroker]) -> None:
    profile = launch.profile
    if profile.secure and len(idle) == len(handle.brokers):
        from reconciler_sandbox.brokers import certificates

        certificates.make(handle.folder / "certificates", handle.name, handle.passwords)
    release = launch.release_for(handle.name)
    folders = {broker: handle.folder / f"broker-{broker.node_id}" for broker in handle.brokers}
    for broker in idle:
        prepare_broker(launch, handle, broker)
    if release.zookeeper:
        zookeeper.start(release, handle)
    else:
        idle_folders = [folders[broker] for broker in idle]
        control.format_storage(prerequisites.java(), release, handle.cluster_id, idle_folders)
    for broker in idle:
        control.start_broker(folders[broker], f"{handle.name}/{broker.node_id}")
    for broker in idle:
        control.wait_listening(folders[broker], f"{handle.name}/{broker.node_id}", broker)
    control.wait_answering(handle.name, handle.super_client(), len(handle.brokers), launch.home)
    if profile.secure:
        _grant_access(launch, handle)


def prepare_broker(launch: Launch, handle: ClusterHandle, broker: SandboxBroker) -> None:
    """Writes what the broker is started with the next time, with the release of ``launch``."""
    release, profile = launch.release_for(handle.name), launch.profile
    jvm = [prerequisites.java(), f"-Xmx{launch.heap or profile.heap}", "-Xms64m", *profile.jvm]
    jvm += [
        *class_archive.flags(release),
        *([f"-Djava.security.krb5.conf={kerberos.configuration(launch.home)}"] if launch.profile.kerberos else []),
        "-Djava.awt.headless=true",
        "-cp",
        f"{release.jars}{os.sep}*",
    ]
    folder = handle.folder / f"broker-{broker.node_id}"
    control.prepare(profile, handle.name, broker, handle.brokers, [*jvm, str(folder)], release)


def _grant_access(launch: Launch, handle: ClusterHandle) -> None:
    from reconciler_sandbox.brokers import acls as access

    access.install(AdminClient(handle.super_client()), handle.name, handle.passwords)
    for principal in handle.passwords:
        control.wait_answering(handle.name, handle.client(principal), len(handle.brokers), launch.home)


def _save(sandbox: Sandbox) -> None:
    sandbox.home.mkdir(parents=True, exist_ok=True)
    clusters = {
        name: {
            "cluster_id": handle.cluster_id,
            "brokers": [asdict(broker) for broker in handle.brokers],
            "passwords": dict(handle.passwords),
            "kafka": handle.kafka,
        }
        for name, handle in sandbox.clusters.items()
    }
    fresh = sandbox.home / f".{_STATE}"
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps({"profile": sandbox.profile, "clusters": clusters}, indent=1))
    fresh.replace(sandbox.home / _STATE)


def archive_classes(progress: Progress = _silent) -> Path:
    """Makes what later brokers start from with less work, unless it is there. Raises SandboxError as ``bring_up``."""
    if not class_archive.ARCHIVE.is_file():
        jars.ensure(progress)
        progress("preparing a quick start of brokers")
        with guardian.guarded_home() as home:
            fresh = class_archive.ARCHIVE.with_suffix(f".{os.getpid()}")
            plain = PROFILES["plain"]
            jvm = (*QUICK_START, class_archive.flag_that_makes(fresh))
            dumping = replace(plain, jvm=jvm, clusters=plain.clusters[:1])
            base, reserved = ports.reserve_block()
            with reserved:
                bring_up(Launch(dumping, home, base, release=NEWEST))
                processes.stop(lambda: processes.find(home), _DUMP_SECONDS)
        if fresh.is_file():
            fresh.replace(class_archive.ARCHIVE)
    return class_archive.ARCHIVE


def found_in(home: Path) -> Sandbox | None:
    """The sandbox whose data lies in ``home``, running or not; None when there is none."""
    file = home / _STATE
    if not file.exists():
        return None
    state = json.loads(file.read_text())
    clusters = {
        name: ClusterHandle(
            name,
            home,
            document["cluster_id"],
            tuple(SandboxBroker(**broker) for broker in document["brokers"]),
            MappingProxyType(document["passwords"]),
            document.get("kafka", KAFKA_VERSION),
        )
        for name, document in state["clusters"].items()
    }
    return Sandbox(state["profile"], home, MappingProxyType(clusters))


def nodes_down(sandbox: Sandbox) -> tuple[str, ...]:
    """``east/1`` for each broker that does not run."""
    running = {process.node for process in processes.find(sandbox.home)}
    every = (f"{name}/{broker.node_id}" for name, handle in sandbox.clusters.items() for broker in handle.brokers)
    return tuple(node for node in every if node not in running)


def take_down(home: Path, clear: bool = False) -> int:
    """Stops all brokers of ``home``, at first gracefully; returns how many ran. ``clear`` removes the data too."""
    brokers = _brokers_of(home)
    processes.stop(lambda: _brokers_of(home))
    processes.stop(lambda: processes.find(home))  # ZooKeeper, to which brokers say good-bye, and a KDC
    if clear:
        shutil.rmtree(home, ignore_errors=True)
    return len(brokers)


def _brokers_of(home: Path) -> list[processes.BrokerProcess]:
    return [process for process in processes.find(home) if process.node.rpartition("/")[2].isdigit()]


@contextlib.contextmanager
def running(
    profile: str, ephemeral: bool = True, heap: str | None = None, quick: bool = False, clusters: Sequence[str] = ()
) -> Iterator[Sandbox]:
    """Clusters for the length of a block. ``quick``: brokers that start soon and are slower later. ``clusters``: only
    these of the profile.

    ``ephemeral``: on free ports, data in a temporary folder; gone after the block even when this process is killed.
    Otherwise the lasting clusters of the profile on the default ports, stopped after the block if it started them.
    """
    chosen = profile_named(profile)
    if quick:
        chosen = replace(chosen, jvm=QUICK_START)
    if clusters:
        chosen = replace(chosen, clusters=tuple(clusters))
    if not ephemeral:
        home = home_of(profile)
        found_running = bool(processes.find(home))
        try:
            yield bring_up(Launch(chosen, home, heap=heap))
        finally:
            if not found_running:
                take_down(home)
        return
    with guardian.guarded_home() as home:
        base, reserved = ports.reserve_block()
        with reserved:
            yield bring_up(Launch(chosen, home, base, heap))

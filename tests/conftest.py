"""Real clusters for the tests: one sandbox of each profile a run, started when a test first asks for it.

Tests share the clusters, so each takes its names from ``unique``. Order: no cluster, then Kafka, then Spark; of those
with Kafka profile after profile, because idle brokers cost processor time too: the last test that may ask for a profile
ends it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import CLUSTERS
from reconciler_sandbox.releases import release_of
from typer.main import get_command

from reconciler.cli.main import main
from reconciler.render.console import App
from reconciler.replication.allowed import allowed
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, Write
from tests.support.jobs import class_archive
from tests.support.jobs.left_behind import end_jobs
from tests.support.waiting import until

# Thousands of test modules are imported at first, and what they make stays.
gc.set_threshold(200_000, 20, 100)

# The program makes its commands at each start, in 30 ms: tests start it some thousand times in one process.
_made = cache(get_command)
App.__call__ = lambda app, **arguments: _made(app)(**arguments)  # type: ignore[method-assign]

# Brokers beside it make any example slow now and then; what must hold does not depend on the clock. Hypothesis has a
# profile of its own where CI is set, and takes words and numbers from modules that happen to be imported: neither may
# decide what a repeatable run tries.
_random = settings(
    settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("random", _random)
settings.register_profile("fast", _random, max_examples=20)
settings.register_profile("repeatable", _random, max_examples=20, derandomize=True)
settings.register_profile("thorough", _random, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "random"))
if settings.get_current_profile_name() == "repeatable":
    providers._get_local_constants = lambda: providers._local_constants

# The most expensive first; tests that start clusters of their own come before them.
_PROFILES = ("ha", "ha_east", "trio", "kerberos", "kerberos_east", "secure", "plain")
_clusters: dict[str, contextlib.ExitStack] = {}
_last: dict[str, pytest.Item] = {}
_without_brokers = False  # while a test runs that no mark and no fixture's name shows to need one
_RUN = uuid.uuid4().hex[:4]
_counter = itertools.count(1)


def pytest_configure() -> None:
    """A shell that starts the tests in the background, and nohup, have them ignore signals, and with them the processes
    that tests interrupt. What has a handler here is not ignored there."""
    class_archive.use()
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    orders: dict[tuple[Path, bool], int] = {}
    for item in items:
        if profiles := _profiles(item):
            item.add_marker(pytest.mark.kafka)
            at = _place(item)
            orders[at] = min(orders.get(at, len(_PROFILES)), *map(_PROFILES.index, profiles))
    items.sort(key=lambda item: (_phase(item), orders.get(_place(item), -1) if _phase(item) else 0))


def _place(item: pytest.Item) -> tuple[Path, bool]:
    """A run has a file's long tests or the others: one kind starts no profile for the other."""
    return item.path, item.get_closest_marker("long") is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Which test is the last that asks for a profile. Of several test processes none knows what it will get."""
    gc.collect()
    gc.freeze()  # what is imported by now need not be looked through after each test
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1":
        return
    for item in session.items:
        if _phase(item):
            _last.update(dict.fromkeys(_profiles(item), item))


def _profiles(item: pytest.Item) -> set[str]:
    """By fixtures; for what a test with brokers asks for while it runs, by parameters and by its mark: kafka("ha")."""
    names = [*getattr(item, "fixturenames", ())]
    for mark in item.iter_markers("kafka"):
        names += [*mark.args, *getattr(getattr(item, "callspec", None), "params", {}).values()]
    return {profile for profile in _PROFILES if profile in names}


def _phase(item: pytest.Item) -> int:
    return 2 if item.get_closest_marker("spark") else int(item.get_closest_marker("kafka") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """librdkafka aborts the process when a client is destroyed on its own background thread. That thread runs Python
    for each answer, so with clients about the collector runs on the main thread only, between two tests."""
    global _without_brokers
    if _without_brokers := not _phase(item):
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        for profile in [name for name, last in _last.items() if last is item and name in _clusters]:
            _clusters.pop(profile).close()


def _sandbox(profile: str, *, quick: bool = False, only: str = "") -> Iterator[Sandbox]:
    assert not _without_brokers, f"mark the test kafka: it starts {profile} among those that need no broker"
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(running(profile, quick=quick, clusters=(only,) if only else ()))
        _clusters[f"{profile}_{only}" if only else profile] = stack
        yield sandbox


@pytest.fixture(scope="session")
def plain() -> Iterator[Sandbox]:
    """One broker a cluster, no security."""
    yield from _sandbox("plain", quick=True)


@pytest.fixture(scope="session")
def trio() -> Iterator[Sandbox]:
    """Three clusters, east, west and hub, of one broker each, no security."""
    yield from _sandbox("trio")


@pytest.fixture(scope="session")
def ha() -> Iterator[Sandbox]:
    """Three brokers a cluster in three racks, factor 3, min ISR 2. A test that stops a broker starts it again."""
    yield from _sandbox("ha")


@pytest.fixture(scope="session")
def ha_east() -> Iterator[Sandbox]:
    """As ``ha``, without the three brokers of west, for tests of one cluster."""
    yield from _sandbox("ha", only="east")


@pytest.fixture(scope="session")
def secure() -> Iterator[Sandbox]:
    """One broker a cluster, SASL_SSL with SCRAM and mTLS, everything denied that sandbox/access.py does not grant."""
    _skip_without_scram()
    yield from _sandbox("secure")


def _skip_without_scram() -> None:
    if without := [name for name in CLUSTERS if not release_of(name).scram]:
        pytest.skip(f"Kafka {release_of(without[0]).version} with KRaft has no SCRAM (since 3.5, KIP-900)")


@pytest.fixture(scope="session")
def realm() -> Iterator[Sandbox]:
    """As ``secure``, with Kerberos beside it. Skipped where no KDC is installed (decision 259)."""
    yield from _realm()


@pytest.fixture(scope="session")
def realm_east() -> Iterator[Sandbox]:
    """As ``realm``, without west, for tests of one cluster."""
    yield from _realm(only="east")


def _realm(only: str = "") -> Iterator[Sandbox]:
    if lacking := kdc.missing():
        pytest.skip(f"no Kerberos: {', '.join(lacking)} not installed (apt-get install krb5-kdc krb5-admin-server)")
    _skip_without_scram()
    yield from _sandbox("kerberos", only=only)


@pytest.fixture
def kerberos(realm: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Its realm is this process' as well."""
    return _entered(realm, monkeypatch)


@pytest.fixture
def kerberos_east(realm_east: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return _entered(realm_east, monkeypatch)


def _entered(realm: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("KRB5_CONFIG", realm.secrets()["KRB5_CONFIG"])
    return realm


@pytest.fixture
def own_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming policies that tests name are allowed from outside of the topology, as whoever runs the program would."""
    listed = allowed({"RECONCILER_ALLOW": "policy:tests.support.policies:* policy:no.such*"})
    monkeypatch.setattr("reconciler.replication.allowed._Permitted.listed", listed)


@pytest.fixture
def unique() -> str:
    """A prefix no other test uses, without ``.``, ``_`` or ``-``."""
    return f"t{_RUN}{next(_counter)}"


def _knows(admin: AdminClient, topic: str) -> bool:
    """Asks for it alone: in a cluster of 300 topics that takes half of the CPU of both sides."""
    return admin.list_topics(topic, timeout=30).topics[topic].error is None


@pytest.fixture
def create_topic() -> CreateTopic:
    """``create_topic(cluster, name, partitions=1, replication=-1, **configs)`` as super user; returns the name when
    each broker knows the topic: the controller answers before they do. ``_`` in a config's name stands for ``.``."""

    def create(cluster: ClusterHandle, name: str, partitions: int = 1, replication: int = -1, **configs: str) -> str:
        admin = AdminClient({**cluster.super_client(), "log_level": "0"})
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dotted)
        admin.create_topics([topic], operation_timeout=20)[name].result(30)
        everyone = cluster.super_client()
        for server in everyone["bootstrap.servers"].split(","):
            until(partial(_knows, AdminClient({**everyone, "bootstrap.servers": server, "log_level": "0"}), name), 30)
        return name

    return create


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def run(*words: object) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Write]:
    """``write(text, name="e")`` -> an environment folder with one file. A mirror job that is started for it, or for
    another one of the test, ends with the test."""

    def make(text: str, name: str = "e") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "topology.yaml").write_text(text, encoding="utf-8")
        return folder

    yield make
    if _phase(request.node):
        end_jobs(tmp_path)

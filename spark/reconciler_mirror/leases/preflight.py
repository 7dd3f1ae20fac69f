"""Checks on an executor of a Spark cluster that it can do the mirror's work.

This code runs first, so it imports only the standard library until it has found the other packages.
"""

import asyncio
import importlib
import importlib.metadata
import pickle
import platform
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PACKAGES: Mapping[str, str] = {
    "crc32c": "crc32c",
    "cramjam": "cramjam",
    "kafka": "kafka-python",
    "re2": "google-re2",
    "structlog": "structlog",
}
"""Module -> package: the packages that lanes need beside our own, as `reconciler mirror pack` packs them."""
CONNECT_S, ANSWER_S = 5.0, 20.0
HELD_S = 3.0
"""Seconds for which each check holds its core, so that Spark gives every executor one, not all to the quickest."""


class NotFitError(Exception):
    """This executor can run no lane. The message names its machine, what is wrong and what to do."""


def installed() -> dict[str, str | None]:
    """Package -> version in this process."""
    return {package: _version(module, package) for module, package in PACKAGES.items()}


def _version(module: str, package: str) -> str | None:
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001  # its native library may be for another machine
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def missing(host: str, versions: Mapping[str, str | None]) -> str:
    """A sentence why no lane can run here; empty otherwise."""
    lacking = [package for package, version in versions.items() if version is None]
    if not lacking:
        return ""
    return (
        f"the Python of executor {host} ({sys.executable}, {platform.python_version()}) lacks "
        f"{', '.join(lacking)}: name an archive made by `reconciler mirror pack` under python of the mirror"
    )


def other_versions(host: str, versions: Mapping[str, str | None], driver: Mapping[str, str | None]) -> Iterator[str]:
    """Differences from the driver's packages: only one set of versions is tested together."""
    for package, version in versions.items():
        if version != driver.get(package):
            yield f"executor {host} has {package} {version}, the driver has {driver.get(package)}"


def unreachable(host: str, addresses: Iterable[tuple[str, int]], subject: str) -> Iterator[str]:
    """Sentences about addresses that refuse a connection, with the reason."""
    for name, port in addresses:
        try:
            socket.create_connection((name, port), CONNECT_S).close()
        except OSError as error:
            yield f"executor {host} cannot reach {subject} at {name}:{port}: {error}"


def side_problems(host: str, endpoint: Any) -> list[str]:
    """Problems with one cluster: secrets, login as in a lane, then each broker by its advertised address."""
    from reconciler.kafka.client.errors import WireError
    from reconciler_mirror.clients.own import cluster_of

    name = endpoint.cluster

    async def look() -> list[tuple[str, int]]:
        cluster = cluster_of(endpoint)
        try:
            await cluster.refresh(())
            return [cluster.address_of(broker) for broker in cluster.brokers]
        finally:
            cluster.close()

    try:
        # A login at one broker proves nothing about the others: each is tried by the address that it advertises.
        addresses = asyncio.run(asyncio.wait_for(look(), ANSWER_S))
    except LookupError as error:
        return [f"executor {host}: {error}, which the client settings of cluster {name} name"]
    except (WireError, OSError, ValueError, TimeoutError) as error:
        words = str(error) or f"no answer within {ANSWER_S:.0f} s"
        return [f"executor {host} cannot use cluster {name}: {words}"]
    return list(unreachable(host, addresses, f"a broker of cluster {name}"))


def look(endpoints: Iterable[Any], driver: Mapping[str, str | None]) -> list[str]:
    """Problems of everything but the channel, over which they are reported. Blocks for up to half a minute per silent
    cluster."""
    host = socket.gethostname()
    problems = list(other_versions(host, installed(), driver))
    for endpoint in endpoints:
        problems += side_problems(host, endpoint)
    return problems


@dataclass(frozen=True, slots=True)
class Checked:
    """The input of a task. ``channel``: address of the driver's channel, None on the same machine. ``work``: function
    and argument, pickled, because unpickling needs the packages."""

    channel: tuple[str, int] | None
    work: bytes


def packed(channel: tuple[str, int] | None, work: object) -> Checked:
    return Checked(channel, pickle.dumps(work))


def fit(given: Checked, versions: Mapping[str, str | None] | None = None) -> Any:
    """The work, unpacked. Raises NotFitError: a package is missing, or the driver's channel cannot be reached, without
    which a lease would end by its deadline again and again."""
    host = socket.gethostname()
    if lacks := missing(host, installed() if versions is None else versions):
        raise NotFitError(lacks)
    channel = () if given.channel is None else (given.channel,)
    if closed := list(unreachable(host, channel, "the control channel of the Spark driver")):
        todo = "name an address and ports that executors reach: spark.driver.host, and channel of the mirror"
        raise NotFitError(f"{closed[0]}; {todo}")
    return pickle.loads(given.work)  # noqa: S301  # our own driver made it, and Spark brought it


def checked(given: Iterable[Checked]) -> Iterator[Any]:
    """The function that Spark runs: checks this machine, then calls the packed function with its argument."""
    for each in given:
        run, spec = fit(each)
        yield from run((spec,))


def checked_packages(given: Iterable[Checked]) -> Iterator[tuple[str, str, str, dict[str, str | None], list[str]]]:
    """The function that Spark runs for ``doctor``: checks this machine only. Yields the executor's folder, host, Python
    version, packages and problems. Each check holds its core for a while, so that others run elsewhere."""
    import time
    from pathlib import Path

    began = time.monotonic()
    for each in given:
        host, versions = socket.gethostname(), installed()
        channel = () if each.channel is None else (each.channel,)
        problems = list(unreachable(host, channel, "the control channel of the Spark driver"))
        if lacks := missing(host, versions):
            problems.append(lacks)
        else:
            endpoints, driver = pickle.loads(each.work)  # noqa: S301  # our own driver made it, and Spark brought it
            problems += look(endpoints, driver)
        time.sleep(max(0.0, HELD_S - (time.monotonic() - began)))
        yield str(Path.cwd()), host, platform.python_version(), versions, problems

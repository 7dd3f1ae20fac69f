"""Checks of ``doctor`` before Spark is started: Java, Spark and disk of this machine, and the state of a Spark master,
as far as it can be asked without submitting an application."""

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import libversion

from reconciler.backends.mirror_jobs.runner.command_line import require_java, spark_submit
from reconciler.errors import RunnerError, Unknown, or_unknown
from reconciler.model.reports.doctor import Machine, SparkMaster
from reconciler.replication.json_codec import parsed

DISTRIBUTION = "kafka-topology-reconciler"
_VERSION_OF_JAVA = re.compile(r'version "(?:1\.)?([0-9]+)')
PAGE_PORT = 8080
"""Default port of a standalone master's UI (spark.master.ui.port), which the master does not report."""
PAGE_SETTING = "spark.master.ui.port"
_VERSION_OF_SPARK = re.compile(r'class="version[^"]*"[^>]*>\s*([0-9][^<\s]*)')
"""The version beside the logo on each page of Spark's UI; the JSON lacks it."""
_CORE = re.compile(r"_[0-9.]+-([0-9].*)\.jar$")
"""The release in the name of Spark's core jar, in unpacked archives and in the pyspark package."""
_PAGE_BYTES = 16 * 2**20
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def machine(folder: Path) -> Machine:
    """``folder``: the state folder; if it does not exist, its nearest existing parent is checked."""
    return Machine(_java(), _spark(), _free(folder), str(folder))


def versions() -> dict[str, str | Unknown]:
    """Name -> release of this program and its platform, in the order of a bug report. Java and Spark are needed only to
    start mirrors."""
    here = machine(Path())
    return {
        DISTRIBUTION: importlib.metadata.version(DISTRIBUTION),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "confluent-kafka": importlib.metadata.version("confluent-kafka"),
        "librdkafka": libversion()[0],
        "spark": here.spark,
        "java": here.java if isinstance(here.java, Unknown) else str(here.java),
    }


def _java() -> int | Unknown:
    """Java's major version, from stderr of ``java -version``."""
    if missing := or_unknown("java", require_java, RunnerError):
        return missing
    home = os.environ.get("JAVA_HOME", "")
    command = (shutil.which("java", path=f"{home}/bin") if home else None) or "java"
    try:
        stderr = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Unknown("java", f"{command} cannot be run: {error}", "Set JAVA_HOME to Java 17 or newer")
    match = _VERSION_OF_JAVA.search(stderr)
    return int(match[1]) if match else Unknown("java", f"{command} does not report its version", "Set JAVA_HOME")


def _spark() -> str | Unknown:
    """The installed pyspark's release, or that of SPARK_HOME, from the name of its core jar."""
    place = or_unknown("spark", spark_submit, RunnerError)
    if isinstance(place, Unknown):
        return place
    if not os.environ.get("SPARK_HOME"):
        return f"pyspark {importlib.metadata.version('pyspark')}"
    root = Path(place).parent.parent
    releases = sorted(match[1] for jar in root.glob("jars/spark-core_*.jar") if (match := _CORE.search(jar.name)))
    return f"Spark {releases[-1]} of SPARK_HOME: {place}" if releases else f"spark-submit of SPARK_HOME: {place}"


def _free(folder: Path) -> int | Unknown:
    """Free bytes of the folder's file system."""
    place = folder.absolute()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        return shutil.disk_usage(place).free
    except OSError as error:
        return Unknown("disk", f"{place}: {error.strerror}")


def addresses_of(master: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports in the master's URL; empty if it has none (yarn)."""
    if master.startswith("spark://"):
        places = [part.rpartition(":") for part in master.removeprefix("spark://").split(",")]
        return tuple((host.strip("[]"), int(port)) for host, _, port in places if port.isdecimal())
    if master.startswith("k8s://"):
        words = master.removeprefix("k8s://")
        split = urlsplit(words if "://" in words else f"https://{words}")
        default = 80 if split.scheme == "http" else 443
        return ((split.hostname, split.port or default),) if split.hostname else ()
    return ()


def page_port(spark_conf: Mapping[str, str]) -> int:
    """The port of the master's UI, from the mirror's settings; Spark reads this setting only on the master."""
    declared = spark_conf.get(PAGE_SETTING, "")
    return int(declared) if declared.isdecimal() and 0 < int(declared) < 2**16 else PAGE_PORT


def spark_master(
    master: str, application: str, within_s: float, page_port: int = PAGE_PORT, environ: Mapping[str, str] = os.environ
) -> SparkMaster:
    """``application``: the name of our application. Never raises; blocks for up to twice ``within_s`` for each
    address."""
    if master == "yarn":
        return SparkMaster(master, _of_hadoop(environ))
    failed = "its name holds no address"
    for host, port in addresses_of(master):
        try:
            socket.create_connection((host, port), within_s).close()
        except OSError as error:
            failed = f"{host}:{port}: {error.strerror or error}"
            continue
        if not master.startswith("spark://"):
            return SparkMaster(master, f"{host}:{port} takes connections")
        # A standby master takes connections, too, and registers no application. Only its page says which one it is.
        page = _page(host, page_port, within_s)
        if isinstance(page, Unknown) or page.get("status") == "ALIVE":
            seen = standalone(master, f"{host}:{port} takes connections", page, application)
            return seen if isinstance(page, Unknown) else replace(seen, version=_version(host, page_port, within_s))
        failed = f"{host}:{port} is {page.get('status')}, not ALIVE"
    todo = "Start it, or correct master under the mirror; check the network between here and there"
    return SparkMaster(master, Unknown("spark master", f"{master} cannot be used: {failed}", todo))


def standalone(master: str, reached: str, page: Mapping[str, Any] | Unknown, application: str) -> SparkMaster:
    """State of a standalone master, from its JSON (workers with coresfree, activeapps with name and cores)."""
    if isinstance(page, Unknown):
        return SparkMaster(master, reached, free_cores=page)
    try:
        workers = [worker for worker in page["workers"] if worker["state"] == "ALIVE"]
        ours = sum(int(app["cores"]) for app in page["activeapps"] if app["name"] == application)
        return SparkMaster(master, reached, len(workers), sum(int(worker["coresfree"]) for worker in workers), ours)
    except (LookupError, TypeError, ValueError):
        words = "the page of the master does not list workers and applications as Spark 4 does"
        return SparkMaster(master, reached, free_cores=Unknown("free cores", words))


def _place(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _read(place: str, within_s: float) -> bytes:
    with urllib.request.urlopen(place, timeout=within_s) as answer:  # noqa: S310  # the scheme is written here
        return bytes(answer.read(_PAGE_BYTES))


def _version(host: str, port: int, within_s: float) -> str:
    """The release on the master's page; empty if it does not show one."""
    try:
        seen = _VERSION_OF_SPARK.search(_read(_place(host, port), within_s).decode("utf-8", errors="replace"))
    except (OSError, ValueError, HTTPException):
        return ""
    return seen.group(1) if seen else ""


def _page(host: str, port: int, within_s: float) -> Mapping[str, Any] | Unknown:
    """The standalone master's JSON, which has its free cores. It is on the port of the UI, not on that of
    ``spark://``."""
    place = f"{_place(host, port)}json/"
    try:
        document = parsed(_read(place, within_s))
    except (OSError, ValueError, HTTPException) as error:  # what answers there may be no HTTP
        words = f"{place} does not say how many cores are free: {getattr(error, 'reason', error)}"
        todo = f"Name the port of the master's page in the mirror's spark_conf: {PAGE_SETTING}; open it to this machine"
        return Unknown("free cores", words, todo)
    return document if isinstance(document, dict) else Unknown("free cores", f"{place} answered no JSON object")


def _of_hadoop(environ: Mapping[str, str]) -> str | Unknown:
    """The Hadoop configuration by which Spark would find YARN, or what is missing."""
    for name in _HADOOP:
        if folder := environ.get(name):
            if os.path.isfile(f"{folder}/yarn-site.xml"):  # noqa: PTH113 - raises nothing, for a folder of another user
                return f"{name} is {folder}, which has yarn-site.xml"
            todo = f"Copy the cluster's yarn-site.xml and core-site.xml to {folder}, or correct {name}"
            return Unknown("spark master", f"{name} is {folder}, where no yarn-site.xml is", todo)
    todo = "Set HADOOP_CONF_DIR wherever apply, mirror start, run or a mirror host is called"
    return Unknown("spark master", "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: YARN cannot be found", todo)

"""The Spark settings that both jobs bring along, beside those they were submitted with."""

from collections.abc import Mapping
from typing import Any

QUIET = {"spark.port.maxRetries": "100", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"


def sockets(master: str, folder: str) -> Mapping[str, str]:
    """Unix sockets between JVM and Python halve the cost of a task. Elsewhere than here their paths may be too long
    for the kernel, unless a ``folder`` is named for them."""
    return {_SOCKETS: "true"} if folder or master.startswith("local") else {}


def with_defaults(own: Mapping[str, str], defaults: Mapping[str, str]) -> Any:
    """A SparkConf of what was submitted: ``own`` win over that, ``defaults`` yield to it."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # without its JVM a SparkConf knows nothing of what was submitted
    conf = SparkConf()
    for key, value in own.items():
        conf.set(key, value)
    chosen = sockets(conf.get("spark.master", "local") or "", conf.get(_SOCKET_FOLDER, "") or "")
    for key, value in {**QUIET, **defaults, **chosen}.items():
        conf.setIfMissing(key, value)
    return conf

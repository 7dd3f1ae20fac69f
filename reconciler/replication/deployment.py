"""Where a mirror's driver runs, and what its executors get; and the Spark settings that follow for each kind of master.

Values only: what has no effect is refused when the environment is read (reconciler.environment.declarations.mirrors).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from reconciler.replication.json_codec import SPARSE

CLIENT, CLUSTER = "client", "cluster"
UNPACKED = "environment"
"""The folder of a container or executor in which Spark unpacks the archive."""


class MasterKind(Enum):
    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


def master_kind(master: str) -> MasterKind:
    """``master`` has the form of a master URL; what begins otherwise is a local one."""
    if master.startswith("spark://"):
        return MasterKind.STANDALONE
    if master.startswith("k8s://"):
        return MasterKind.KUBERNETES
    return MasterKind.YARN if master == "yarn" else MasterKind.LOCAL


@dataclass(frozen=True, slots=True)
class ExecutorPython:
    """``archive``: an absolute path or a URI, unpacked on each executor; empty: what is installed there is used.
    ``executable``: of the executors; relative to the folder of the container; empty: that of the archive."""

    archive: str = field(default="", metadata=SPARSE)
    executable: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class Deployment:
    """``executors``: how many; ``cores`` and ``memory`` (as Spark writes it, such as 2g): of each of them. 0 and empty:
    as Spark has it."""

    deploy_mode: str = field(default=CLIENT, metadata=SPARSE)
    executors: int = field(default=0, metadata=SPARSE)
    cores: int = field(default=0, metadata=SPARSE)
    memory: str = field(default="", metadata=SPARSE)
    python: ExecutorPython = field(default=ExecutorPython(), metadata=SPARSE)

    def spark_conf(self, master: str) -> Mapping[str, str]:
        """The Spark settings that say the same."""
        kind = master_kind(master)
        conf = {
            "spark.executor.cores": str(self.cores or ""),
            "spark.executor.memory": self.memory,
            "spark.archives": f"{self.python.archive}#{UNPACKED}" if self.python.archive else "",
            "spark.pyspark.python": self.executable,
        }
        if kind is MasterKind.STANDALONE:  # it has no number of executors, only one of cores
            conf["spark.cores.max"] = str(self.executors * self.cores or "")
        else:
            conf["spark.executor.instances"] = str(self.executors or "")
        return {key: value for key, value in conf.items() if value}

    @property
    def executable(self) -> str:
        """Of the executors; empty: Spark decides."""
        return self.python.executable or (f"./{UNPACKED}/bin/python" if self.python.archive else "")

    def settings(self) -> Mapping[str, str]:
        """What is set, by its key in the YAML."""
        values = {
            "deploy_mode": self.deploy_mode if self.deploy_mode != CLIENT else "",
            "executors": str(self.executors or ""),
            "cores": str(self.cores or ""),
            "memory": self.memory,
            "python.archive": self.python.archive,
            "python.executable": self.python.executable,
        }
        return {key: value for key, value in values.items() if value}

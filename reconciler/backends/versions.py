"""Releases of this program and of what it runs on: ``reconciler version``."""

import platform
from importlib.metadata import version
from pathlib import Path

from confluent_kafka import libversion

from reconciler.backends.mirror_jobs.runner.machine import machine
from reconciler.errors import Unknown

DISTRIBUTION = "kafka-topology-reconciler"


def versions() -> dict[str, str | Unknown]:
    """By name, in the order of a bug report. Java and Spark are needed only where a mirror is started."""
    here = machine(Path())
    return {
        DISTRIBUTION: version(DISTRIBUTION),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": libversion()[0],
        "spark": here.spark,
        "java": here.java if isinstance(here.java, Unknown) else str(here.java),
    }

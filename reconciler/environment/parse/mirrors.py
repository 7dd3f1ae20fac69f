"""Parses mirrors (Spark applications) from YAML."""

from __future__ import annotations

from reconciler.environment.parse.values import Wrong, spark_setting
from reconciler.environment.yaml.entry import Reading
from reconciler.model.environment.topology import Mirror
from reconciler.replication.deployment import CLIENT, Deployment, ExecutorPython
from reconciler.replication.handover import ChannelSettings
from reconciler.replication.handover_reader import MOST_PORT


def build_mirror(reading: Reading) -> Mirror:
    """``flows`` is empty when the entry names none; ``environment.load`` fills them in."""
    return Mirror(
        name=reading.name,
        flows=tuple(sorted(reading.texts("flows"))),
        master=reading.value("master", default="local[2]"),
        parallelism=reading.value("parallelism", default=2),
        spark_conf=reading.mapping("spark_conf", each=spark_setting),
        refresh_interval_ms=reading.interval("refresh_interval", default=5_000),
        status_interval_ms=reading.interval("status_interval", default=2_000),
        metrics_port=reading.value("metrics_port", default=0),
        metrics_host=reading.value("metrics_host", default="127.0.0.1"),
        deployment=Deployment(
            deploy_mode=reading.value("deploy_mode", default=CLIENT),
            executors=reading.value("executors", default=0),
            cores=reading.value("cores", default=0),
            memory=reading.value("memory", default=""),
            python=ExecutorPython(
                archive=reading.value("python", "archive", default=""),
                executable=reading.value("python", "executable", default=""),
            ),
        ),
        verify_conf=reading.mapping("verify_conf", each=spark_setting),
        channel=_channel(reading),
        hosted=reading.value("hosted", default=False),
        where=reading.place.where,
    )


def _channel(reading: Reading) -> ChannelSettings | None:
    if reading.node("channel") is None:
        return None
    bind = reading.value("channel", "bind_address", default="")
    advertised = reading.value("channel", "advertised_address", default="")
    ports = reading.value("channel", "ports", default=None)
    if ports is None:
        return ChannelSettings(bind, advertised)
    first, _, last = str(ports).partition("-")
    if not 0 < int(first) < int(last) <= MOST_PORT:
        why = f"Ports go from 1 to {MOST_PORT}, and a new application needs one while the old one still listens"
        todo = "Write the lower port, -, and a higher one, such as 40000-40010"
        reading.wrong(("channel", "ports"), Wrong("out-of-range", f'channel.ports is "{ports}"', why, todo))
        return None
    return ChannelSettings(bind, advertised, int(first), int(last))

"""A lane that logs in by Kerberos on both sides: sessions of 20 s, tickets of 8 s, and what stops it meanwhile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import Sandbox

from tests.support.access.kerberos_parts import CLOCK_SKEW, answering_kdc, error_of_a_kdc
from tests.support.commands import Ended, Write
from tests.support.lanes.lane_runs import Flow, UntilControl, caught_up, fill
from tests.support.lanes.truth import map_topic

pytestmark = pytest.mark.long
CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


@pytest.fixture
def flow(kerberos: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    east, west = kerberos["east"], kerberos["west"]
    made = Flow(east, west, unique, clients=(east.kerberos_client("mirror", tls=True), west.kerberos_client("mirror")))
    create_topic(made.source, made.topic)
    create_topic(made.target, made.remote)
    map_topic(made.target)
    produce(made, 0)
    return made


def produce(flow: Flow, at: int) -> None:
    fill(flow.source, flow.topic, [(b"%d" % (at + n), b"v" * 100, (), NOW) for n in range(100)])


def test_a_lane_outlives_its_sessions_and_tickets(kerberos: Sandbox, flow: Flow) -> None:
    kdc.kadmin(kerberos.home, "modprinc -maxlife 8s mirror")
    try:
        lane = flow.lane()
        control = UntilControl(lane.partitions, lambda _: False, 120)
        thread = threading.Thread(target=control.copy, args=(lane,))
        thread.start()
        for at in range(100, 900, 100):
            time.sleep(4)
            produce(flow, at)
            control.until_all_copy()
        control.done = caught_up
        thread.join(60)
    finally:
        kdc.kadmin(kerberos.home, "modprinc -maxlife 1day mirror")
    assert control.over is not None
    assert control.over.end is LaneEnd.STOPPED, control.over  # type: ignore[attr-defined]
    assert [report.conditions for report in control.reports if report.conditions] == []
    assert flow.target_content() == flow.source_content()


def test_what_refuses_a_login_is_a_condition_and_ends_with_its_cause(
    kerberos: Sandbox, flow: Flow, tmp_path: Path
) -> None:
    keytab = tmp_path / "mirror.keytab"
    assert flow.clients is not None
    lane = replace(flow, clients=(flow.clients[0], {**flow.clients[1], "sasl.kerberos.keytab": str(keytab)})).lane()

    def condition() -> str:
        report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
        assert report.end is LaneEnd.FAILED, report
        [one] = report.progress.conditions
        assert one.code == "authentication_failed"
        return one.text

    assert f"sasl.kerberos.keytab names {keytab}, which cannot be read: No such file" in condition()
    keytab.write_bytes(kdc.keytab(kerberos.home, "plan").read_bytes())
    assert f"is mirror@SANDBOX.TEST, and the keytab {keytab} holds plan@SANDBOX.TEST" in condition()
    keytab.write_bytes(kdc.keytab(kerberos.home, "mirror").read_bytes())
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


CAUSES = {
    "ticket that cannot be renewed": "has expired (Ticket expired): run kinit",
    "clock": "clock here (20",
    "realm": 'Cannot find KDC for realm "SANDBOX.TEST"). Name it in ',
    "service": "no principal kafak/localhost for the broker at localhost",
    "rotated key": "key of mirror@SANDBOX.TEST in ",
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_reported_by_every_command_and_by_a_lane(
    kerberos: Sandbox,
    flow: Flow,
    tmp_path: Path,
    write: Write,
    cli: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    cause: str,
) -> None:
    """The lane goes on by itself once the cause is gone."""
    real, keytab, cache = kdc.keytab(kerberos.home, "mirror"), tmp_path / "mirror.keytab", tmp_path / "cache"
    keytab.write_bytes(real.read_bytes())
    client = kerberos["west"].kerberos_client("mirror") | {"sasl.kerberos.keytab": str(keytab)}
    said = CAUSES[cause]
    with contextlib.ExitStack() as until_gone:
        gone = until_gone.callback
        match cause:
            case "clock":
                answer = error_of_a_kdc(CLOCK_SKEW)
                config = until_gone.enter_context(answering_kdc(kerberos.home, tmp_path, answer))
                until_gone.enter_context(monkeypatch.context()).setenv("KRB5_CONFIG", str(config))
            case "realm":
                config = tmp_path / "krb5.conf"
                config.write_text(kdc.configuration(kerberos.home).read_text().replace("SANDBOX.TEST", "OTHER.TEST"))
                until_gone.enter_context(monkeypatch.context()).setenv("KRB5_CONFIG", str(config))
            case "service":
                client["sasl.kerberos.service.name"] = "kafak"
                gone(client.pop, "sasl.kerberos.service.name")
            case "rotated key":
                kdc.kadmin(kerberos.home, f"ktadd -k {tmp_path / 'new.keytab'} mirror")
                real.write_bytes((tmp_path / "new.keytab").read_bytes())
                gone(lambda: keytab.write_bytes(real.read_bytes()))
            case _:
                del client["sasl.kerberos.keytab"]
                monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
                kinit = ["kinit", "-k", "-t", str(real)]
                subprocess.run([*kinit, "-l", "1s", "mirror"], check=True)
                time.sleep(2)
                gone(subprocess.run, [*kinit, "mirror"], check=True)

        settings = dict(client)
        servers = settings.pop("bootstrap.servers")
        cluster = {"bootstrap_servers": [servers], "cluster_id": kerberos["west"].cluster_id, "client": settings}
        folder = write(json.dumps({"clusters": {"west": cluster}}))
        assert cli("validate", folder).code == 0, "it is known only there"
        for command in ("plan", "doctor"):
            told = cli(command, folder)
            assert (told.code, said in told.words, "Traceback" in told.words) == (1, True, False), told
        assert flow.clients is not None
        lane = replace(flow, clients=(flow.clients[0], client)).lane()
        report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
        assert report.end is LaneEnd.FAILED, report
        [condition] = report.progress.conditions
        assert (condition.code, said in condition.text) == ("authentication_failed", True), condition
    if cause == "service":
        lane = replace(flow, clients=(flow.clients[0], client)).lane()  # settings come with a restart
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()

"""Kerberos against a real KDC and real brokers: tickets from where they may come, and each refusal in words."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.auth import gssapi
from reconciler.kafka.client.auth.settings import KerberosLogin, connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError, WireError
from tests.support.access.kerberos_parts import CLOCK_SKEW, answering_kdc, error_of_a_kdc

HOST = "localhost"


def log_in(client: Mapping[str, str], seconds: float = 0.0) -> float:
    """Asks for metadata, twice with ``seconds`` in between; for how long the last session is valid."""
    settings = connection_settings({name: value for name, value in client.items() if name != "bootstrap.servers"})

    async def run() -> float:
        cluster = ClusterClient("east", client["bootstrap.servers"].split(","), settings)
        try:
            await cluster.refresh(None)
            await asyncio.sleep(seconds)
            await cluster.refresh(None)
            return (await cluster.any_control()).expires_at - time.monotonic()
        finally:
            cluster.close()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(run())


@pytest.fixture
def kerberos(kerberos_east: Sandbox) -> Sandbox:
    return kerberos_east


def login(kerberos: Sandbox, of: str = "plan", **other: str) -> KerberosLogin:
    return KerberosLogin(keytab=str(kdc.keytab(kerberos.home, of)), **other)


def refused(login: KerberosLogin, host: str = HOST) -> str:
    with pytest.raises(AuthenticationFailedError) as caught:
        gssapi.ticket(login, host)
    return str(caught.value)


@pytest.mark.parametrize("tls", [False, True])
def test_a_keytab_logs_in_with_and_without_tls(kerberos: Sandbox, tls: bool) -> None:
    east = kerberos["east"]
    assert log_in(east.kerberos_client("plan", tls=tls)) > 0
    client = east.kerberos_client("plan", tls=tls)
    del client["sasl.kerberos.principal"]
    assert log_in(client) > 0, "a keytab alone names a principal"


def test_a_session_that_ends_is_followed_by_another(kerberos: Sandbox) -> None:
    """KIP-368: the listener ends sessions after 20 s."""
    assert log_in(kerberos["east"].kerberos_client("plan"), 17) > 10


def test_a_ticket_cache_logs_in_and_a_client_keytab_fills_it(
    kerberos: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kerberos["east"].kerberos_client("plan")
    keytab = client.pop("sasl.kerberos.keytab")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/by-kinit")
    told = refused(KerberosLogin(principal="plan@SANDBOX.TEST"))
    assert f"there is no ticket of plan@SANDBOX.TEST in the ticket cache FILE:{tmp_path}/by-kinit" in told
    subprocess.run(["kinit", "-k", "-t", keytab, "plan"], check=True, env=os.environ)
    assert log_in(client) > 0
    assert "there is no ticket of apply" in refused(KerberosLogin(principal="apply"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/by-client-keytab")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", keytab)
    del client["sasl.kerberos.principal"]
    assert log_in(client) > 0


def test_an_expired_ticket_of_a_cache_is_reported_and_one_of_a_keytab_is_renewed(
    kerberos: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/cache")
    keytab = str(kdc.keytab(kerberos.home, "user"))
    subprocess.run(["kinit", "-l", "2s", "-k", "-t", keytab, "user"], check=True, env=os.environ)
    gssapi.ticket(KerberosLogin(), HOST)
    kdc.kadmin(kerberos.home, "modprinc -maxlife 3s user")
    try:
        client = kerberos["east"].kerberos_client("user")
        assert log_in(client) > 0
        time.sleep(4)
        assert "has expired" in refused(KerberosLogin())
        assert log_in(client) > 0
    finally:
        kdc.kadmin(kerberos.home, "modprinc -maxlife 1day user")


def test_many_logins_at_once_share_a_ticket(kerberos: Sandbox) -> None:
    problems: list[Exception] = []

    def run() -> None:
        try:
            gssapi.ticket(login(kerberos, "admin", principal="admin"), HOST)
        except WireError as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_names_that_the_kdc_does_not_know_are_reported(kerberos: Sandbox) -> None:
    told = refused(login(kerberos, service="kafak"))
    assert "no principal kafak/localhost for the broker at localhost" in told
    assert "sasl.kerberos.service.name (kafak)" in told
    assert "no principal kafka/b7.example.net" in refused(login(kerberos), "b7.example.net")
    told = refused(login(kerberos, principal="mirror@SANDBOX.TEST"))
    assert "sasl.kerberos.principal is mirror@SANDBOX.TEST, and the keytab" in told
    assert "holds plan@SANDBOX.TEST" in told


def test_a_wrong_realm_is_reported(kerberos: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "krb5.conf"
    config.write_text(kdc.configuration(kerberos.home).read_text().replace("SANDBOX.TEST", "OTHER.TEST"))
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    told = refused(login(kerberos, principal="plan@SANDBOX.TEST"))
    assert f'Cannot find KDC for realm "SANDBOX.TEST"). Name it in {config} (KRB5_CONFIG)' in told


def test_a_key_that_was_changed_is_reported(kerberos: Sandbox, tmp_path: Path) -> None:
    old, new = tmp_path / "old.keytab", tmp_path / "new.keytab"
    kdc.kadmin(kerberos.home, "addprinc -randkey rotated", f"ktadd -k {old} rotated", f"ktadd -k {new} rotated")
    told = refused(KerberosLogin(keytab=str(old)))
    assert f"the key of rotated@SANDBOX.TEST in {old} is not the one that the KDC of SANDBOX.TEST has" in told
    old.write_bytes(new.read_bytes())
    gssapi.ticket(KerberosLogin(keytab=str(old)), HOST)
    kdc.kadmin(kerberos.home, "delprinc -force rotated")
    told = refused(KerberosLogin(keytab=str(new)))
    assert "the KDC of SANDBOX.TEST knows no rotated@SANDBOX.TEST" in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            CLOCK_SKEW,
            "the KDC or the broker differ by more than Kerberos allows (Clock skew too great). Set both by NTP",
        ),
        (18, "the KDC of SANDBOX.TEST gives plan@SANDBOX.TEST no ticket"),
        (60, "no Kerberos ticket of plan@SANDBOX.TEST for kafka/localhost"),
    ],
)
def test_a_refusal_of_a_kdc_is_reported(
    kerberos: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, told: str
) -> None:
    with answering_kdc(kerberos.home, tmp_path, error_of_a_kdc(code)) as config:
        monkeypatch.setenv("KRB5_CONFIG", str(config))
        assert told in refused(login(kerberos))


def test_a_kdc_that_is_silent_is_named_and_its_place_is_free_for_other_logins(
    kerberos: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kerberos["east"].kerberos_client("plan") | {"socket.connection.setup.timeout.ms": "1500"}
    told = r"no KDC answered within 1\.2 s for the login at localhost:"
    with answering_kdc(kerberos.home, tmp_path, None) as config:
        monkeypatch.setenv("KRB5_CONFIG", str(config))
        with pytest.raises(AuthenticationFailedError, match=told):
            log_in(client)


def test_a_ticket_of_a_keytab_that_expires_without_a_kdc_names_the_kdc(kerberos: Sandbox) -> None:
    kdc.kadmin(kerberos.home, "modprinc -maxlife 3s user")
    port = _port(kerberos)
    try:
        gssapi.ticket(login(kerberos, "user"), HOST)
        kdc.stop(kerberos.home)
        time.sleep(4)
        told = refused(login(kerberos, "user"))
        assert ("has expired" in told, "Check that a KDC runs" in told, "kinit" in told) == (True, True, False), told
    finally:
        kdc.start(kerberos.home, port, ())
        kdc.kadmin(kerberos.home, "modprinc -maxlife 1day user")


def test_a_kdc_that_does_not_run_is_reported_and_the_login_goes_on_with_it(kerberos: Sandbox) -> None:
    folder, port = kdc.folder_of(kerberos.home), _port(kerberos)
    kdc.stop(kerberos.home)
    try:
        told = refused(login(kerberos, "mirror"))
        assert f"Check that a KDC runs, and that {folder}/krb5.conf (KRB5_CONFIG) names it" in told
    finally:
        kdc.start(kerberos.home, port, ())
    gssapi.ticket(login(kerberos, "mirror"), HOST)


def _port(kerberos: Sandbox) -> int:
    text = kdc.configuration(kerberos.home).read_text()
    return int(text.partition("127.0.0.1:")[2].split()[0])


def test_a_machine_without_the_library_is_reported(kerberos: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "LIBRARY", "libgssapi_none.so.2")
    monkeypatch.setattr(gssapi, "_library", gssapi._library.__wrapped__)
    with pytest.raises(SettingError, match="apt-get install libgssapi-krb5-2"):
        gssapi.ticket(login(kerberos), HOST)


def test_a_broker_that_demands_encryption_by_kerberos_is_refused_by_name(
    kerberos: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = gssapi._taken
    monkeypatch.setattr(gssapi, "_taken", lambda buffer: b"\4\0\1\0" if (text := taken(buffer))[:1] == b"\1" else text)
    with pytest.raises(AuthenticationFailedError, match=r"\(qop\) auth-conf, and only auth is spoken here"):
        log_in(kerberos["east"].kerberos_client("plan"))

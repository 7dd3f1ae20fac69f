"""What `validate` says of keytabs and keys, offline. A file of another machine is no problem of the YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from reconciler.backends.connections.login_files import login_file_problems
from reconciler.kafka.client.auth.tokens.assertions import encoded
from reconciler.model.environment.topology import Cluster, Topology
from tests.support.access.issuer import pem
from tests.support.access.kerberos_parts import keytab_of
from tests.support.commands import Ended, Write

OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "ada",
    "sasl.oauthbearer.client.authentication": "private_key_jwt",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token",
}
KEY = "sasl.oauthbearer.assertion.private.key.file"
KERBEROS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.principal": "plan@LAB.TEST"}


def told(client: dict[str, str]) -> tuple[str, ...]:
    return login_file_problems(Topology("e", {"east": Cluster("east", ("e:1",), client=client)}, {}, {}, {}))


def test_a_file_that_is_missing_is_reported_once(tmp_path: Path) -> None:
    [one] = told({**OIDC, KEY: str(tmp_path / "key.pem")})
    assert one.startswith(f"cluster east: {KEY} names {tmp_path}/key.pem, and there is no such file on this machine.")
    [one] = told({**KERBEROS, "sasl.kerberos.keytab": "/no/such.keytab"})
    assert "sasl.kerberos.keytab names /no/such.keytab, and there is no such file on this machine" in one


def test_a_file_that_cannot_even_be_looked_at_is_reported_as_one_that_cannot_be_read() -> None:
    """The system refuses a long name as it refuses the look into a folder of another user: by an error."""
    place = f"/{'x' * 300}"
    [one] = told({**OIDC, KEY: place})
    assert one.startswith(f"cluster east: {KEY} names {place}, which cannot be read here: permission denied")
    [one] = told({**KERBEROS, "sasl.kerberos.keytab": place})
    assert f"names {place}, which cannot be read: File name too long" in one


def test_what_is_no_key_and_what_signs_another_algorithm_is_reported(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("s3cret, and no key")
    [one] = told({**OIDC, KEY: str(key)})
    assert ("no PEM key" in one, "s3cret" in one) == (True, False)
    key.write_text(pem(rsa.generate_private_key(65537, 2048)))
    assert told({**OIDC, KEY: str(key)}) == ()
    [one] = told({**OIDC, KEY: str(key), "sasl.oauthbearer.assertion.algorithm": "ES256"})
    assert "does not sign ES256" in one


@pytest.mark.parametrize("name", ["assertion.file", "gcp.credentials.location", "azure.certificate.location"])
def test_an_empty_file_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "login").write_text("")
    [one] = told({**OIDC, f"sasl.oauthbearer.{name}": str(tmp_path / "login")})
    assert f"sasl.oauthbearer.{name} names {tmp_path}/login, which is empty" in one


def test_an_assertion_that_ended_is_reported_with_both_times(tmp_path: Path) -> None:
    for ends, says in ((1_795_780_800, "ended at 2026-11-27T12:00:00Z; the clock here says 20"), (9_999_999_999, "")):
        (tmp_path / "jwt").write_text(f"{encoded({'alg': 'RS256'})}.{encoded({'exp': ends})}.c\n")
        assert says in "".join(told({**OIDC, "sasl.oauthbearer.assertion.file": str(tmp_path / "jwt")}))
    assert told({**OIDC, "sasl.oauthbearer.assertion.file": str(tmp_path / "jwt")}) == ()


def test_a_passphrase_that_only_the_job_has_is_not_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key.pem"
    key.write_text("no key")
    client = {**OIDC, KEY: str(key), "sasl.oauthbearer.assertion.private.key.passphrase": "${env:OF_THE_KEY}"}
    assert told(client) == ()
    monkeypatch.setenv("OF_THE_KEY", "word")
    assert "no PEM key" in told(client)[0]


def test_a_keytab_without_the_principal_is_reported_with_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "client.keytab"
    place.write_bytes(keytab_of("apply"))
    [one] = told({**KERBEROS, "sasl.kerberos.keytab": str(place)})
    assert f"sasl.kerberos.principal is plan@LAB.TEST, and the keytab {place} holds apply@LAB.TEST" in one
    place.write_bytes(keytab_of("plan"))
    assert told({**KERBEROS, "sasl.kerberos.keytab": str(place)}) == ()

    referred = {**KERBEROS, "sasl.kerberos.keytab": "${env:PLAN_KEYTAB}"}
    assert told(referred) == (), "only the machine that logs in has the variable"
    place.write_bytes(b"no keytab")
    monkeypatch.setenv("PLAN_KEYTAB", str(place))
    assert "names ${env:PLAN_KEYTAB}, and it is no keytab" in told(referred)[0]


def test_a_file_that_is_not_listed_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "file:/run/secrets")
    place = tmp_path / "client.keytab"
    place.write_bytes(b"no keytab")
    assert told({**KERBEROS, "sasl.kerberos.keytab": str(place)}) == ()


def test_validate_reports_it_and_stays_valid(tmp_path: Path, write: Write, cli: Callable[..., Ended]) -> None:
    place = tmp_path / "client.keytab"
    place.write_bytes(keytab_of("apply"))
    client = "".join(f"      {k}: {v}\n" for k, v in {**KERBEROS, "sasl.kerberos.keytab": place}.items())
    folder = write(f"clusters:\n  east:\n    bootstrap_servers: ['east.example.net:9093']\n    client:\n{client}")
    ended = cli("validate", folder)
    assert (ended.code, "holds apply@LAB.TEST. Name one of these" in ended.err) == (0, True), ended

"""Logins that live for a minute, and what gives them: it can refuse to renew any.

Each is a context manager that starts the brokers, and gives a ``Login``.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.access import token_brokers as brokers
from tests.support.access.certificates import ShortLived
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server
from tests.support.access.issuer import AUDIENCE, SECRET, Issuer, pem, running_issuer

LIFE_SECONDS = 60
CLUSTERS = ("east", "west")
_BUSY = IdentityAnswer({"error": "temporarily_unavailable"}, 503)
_SAID = "it answered 503"
_PROVIDER = '''\
"""A provider of one's own, as docs/begin/connecting/oauth.md describes it."""

import json
import time
import urllib.parse
import urllib.request


def provide(settings):
    named = {name.removeprefix("sasl.oauthbearer."): value for name, value in settings.items()}
    form = {"grant_type": "client_credentials", "client_id": named["client.id"]}
    form["client_secret"] = named["client.secret"]
    with urllib.request.urlopen(named["token.endpoint.url"], urllib.parse.urlencode(form).encode(), 10) as answer:
        document = json.load(answer)
    return document["access_token"], time.time() + document["expires_in"]
'''
_ENTRY = "[reconciler.token_providers]\nacme = acme_tokens:provide\n"


@dataclass(frozen=True)
class Login:
    """``clients``: settings for each cluster. ``said``: of each refusal, what a condition has to say. ``refuse`` and
    ``allow``: what gives the logins, or takes them."""

    clusters: Mapping[str, ClusterHandle]
    clients: Mapping[str, Mapping[str, str]]
    environ: Mapping[str, str]
    said: str
    refuse: Callable[[], None]
    allow: Callable[[], None]


@contextlib.contextmanager
def _issuer_and_brokers(authority: ShortLived | None = None) -> Iterator[tuple[Issuer, Sandbox]]:
    of_session = LIFE_SECONDS * 1000
    with running_issuer() as issuer, brokers.token_brokers(issuer, CLUSTERS, of_session, authority) as sandbox:
        issuer.life = LIFE_SECONDS
        yield issuer, sandbox


def _of(
    issuer: Issuer,
    sandbox: Sandbox,
    more: Mapping[str, str],
    environ: Mapping[str, str],
    said: str = _SAID,
    mechanism: str = "OAUTHBEARER",
) -> Login:
    """By tokens of ``issuer``. ``more``: settings without ``sasl.oauthbearer.``"""
    named = {f"sasl.oauthbearer.{name}": value for name, value in more.items()}
    clients = {name: {**brokers.client(handle, mechanism), **named} for name, handle in sandbox.clusters.items()}

    def answer(given: IdentityAnswer | None) -> None:
        issuer.answer = given

    return Login(sandbox.clusters, clients, environ, said, lambda: answer(_BUSY), lambda: answer(None))


@contextlib.contextmanager
def of_issuer(**more: str) -> Iterator[Login]:
    """``more``: how the client proves itself; without a secret, by its key."""
    with _issuer_and_brokers() as (issuer, sandbox):
        told = {name.removeprefix("sasl.oauthbearer."): value for name, value in issuer.client(**more).items()}
        proof = "client.secret" if "client.secret" in told else "assertion.private.key.pem"
        secret = told.get(proof, pem(issuer.of_client))
        told[proof] = "${env:SECRET_OF_ADA}"
        yield _of(issuer, sandbox, told, {"SECRET_OF_ADA": secret}, f"{_SAID}, temporarily_unavailable")


@contextlib.contextmanager
def of_provider(folder: Path) -> Iterator[Login]:
    """Code of an installed package, which declares it as an entry point."""
    package = folder / "acme-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (package / "entry_points.txt").write_text(_ENTRY)
    (folder / "acme_tokens.py").write_text(_PROVIDER)
    with _issuer_and_brokers() as (issuer, sandbox):
        more = {"method": "acme_tokens:provide", "token.endpoint.url": f"{issuer.url}/token"}
        more |= {"client.id": "ada", "client.secret": "${env:SECRET_OF_ADA}"}
        environ = {"SECRET_OF_ADA": SECRET, "PYTHONPATH": str(folder)}
        said = "token from the provider acme_tokens:provide: HTTPError"
        yield _of(issuer, sandbox, more, environ, said)


@contextlib.contextmanager
def of_azure() -> Iterator[Login]:
    """The machine's managed identity."""
    with _issuer_and_brokers() as (issuer, sandbox), identity_server(lambda _: issuer.grant()) as server:
        more = {"method": "azure", "scope": "api://kafka/.default"}
        yield _of(issuer, sandbox, more, {"AZURE_POD_IDENTITY_AUTHORITY_HOST": server.url})


@contextlib.contextmanager
def of_google(folder: Path) -> Iterator[Login]:
    """By the key of a service account."""
    with _issuer_and_brokers() as (issuer, sandbox):
        key = folder / "service-account.json"
        key.write_text(json.dumps(issuer.service_account()))
        yield _of(issuer, sandbox, {}, {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}, mechanism="GCP")


@contextlib.contextmanager
def of_web_identity() -> Iterator[Login]:
    """``aws_sts``: JWTs of GetWebIdentityToken. The keys that ask for them live on."""

    def answer(_: IdentityRequest) -> IdentityAnswer:
        if issuer.answer is not None:
            return issuer.answer
        return IdentityAnswer(f"<R><Result><WebIdentityToken>{issuer.token()}</WebIdentityToken></Result></R>")

    with _issuer_and_brokers() as (issuer, sandbox), identity_server(answer) as server:
        more = {"method": "aws_sts", "audience": AUDIENCE, "aws.region": brokers.REGION}
        environ = {"AWS_ENDPOINT_URL_STS": server.url, "AWS_ACCESS_KEY_ID": brokers.KEY}
        yield _of(issuer, sandbox, more, {**environ, "AWS_SECRET_ACCESS_KEY": brokers.AWS_SECRET})


@contextlib.contextmanager
def of_role() -> Iterator[Login]:
    """Keys of a container's role, as ECS and EKS give them."""

    def answer(_: IdentityRequest) -> IdentityAnswer:
        if issuer.answer is not None:
            return issuer.answer
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFE_SECONDS))
        keys = {"AccessKeyId": brokers.KEY, "SecretAccessKey": brokers.AWS_SECRET, "Token": brokers.SESSION}
        return IdentityAnswer({**keys, "Expiration": end})

    with _issuer_and_brokers() as (issuer, sandbox), identity_server(answer) as server:
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1/credentials"}
        yield _of(issuer, sandbox, {}, environ, mechanism="AWS_MSK_IAM")


@contextlib.contextmanager
def of_kdc(realm: Sandbox) -> Iterator[Login]:
    def allow() -> None:
        port = int(kdc.configuration(realm.home).read_text().rpartition("kdc = ")[2].split()[0].rpartition(":")[2])
        kdc.start(realm.home, port, ())

    clients = {name: handle.kerberos_client("mirror") for name, handle in realm.clusters.items()}
    kdc.kadmin(realm.home, f"modprinc -maxlife {LIFE_SECONDS}s mirror", f"modprinc -maxlife {LIFE_SECONDS}s admin")
    try:
        yield Login(realm.clusters, clients, realm.secrets(), "KDC", lambda: kdc.stop(realm.home), allow)
    finally:
        allow()
        kdc.kadmin(realm.home, "modprinc -maxlife 1day mirror", "modprinc -maxlife 1day admin")


@contextlib.contextmanager
def of_password(folder: Path, mechanism: str) -> Iterator[Login]:
    """PLAIN or SCRAM in sessions of a minute; brokers get another password, and the file that has it is renewed
    later. SCRAM-SHA-512 goes over TLS."""
    secret, another, authority = folder / "password", "another-of-ada", ShortLived(folder)
    secret.write_text(brokers.PASSWORD)
    more = {"sasl.password": f"${{file:{secret}}}"}
    if mechanism == "SCRAM-SHA-512":
        more["ssl.ca.location"] = str(authority.ca)

    def renew() -> None:
        secret.write_text(another)

    with _issuer_and_brokers(authority) as (_, sandbox):
        clients = {name: brokers.client(handle, mechanism) | more for name, handle in sandbox.clusters.items()}
        said = f"refused {mechanism}: "
        yield Login(sandbox.clusters, clients, {}, said, lambda: brokers.set_password(sandbox, another), renew)


@contextlib.contextmanager
def of_certificate(folder: Path) -> Iterator[Login]:
    """A certificate that is renewed each half a minute, until it is not. TLS has no sessions that end: brokers are
    restarted while it is expired."""
    authority, path, over, refused = ShortLived(folder), folder / "ada.pem", threading.Event(), threading.Event()

    def renew() -> None:
        while not refused.is_set():
            authority.issue(path, "ada", LIFE_SECONDS)
            if over.wait(LIFE_SECONDS / 2):
                return

    def allow() -> None:
        refused.clear()
        threading.Thread(target=renew).start()

    def refuse() -> None:
        refused.set()
        authority.issue(path, "ada", -1)
        for cluster in sandbox.clusters.values():
            cluster.restart()

    allow()
    try:
        with _issuer_and_brokers(authority) as (_, sandbox):
            files = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
            same = {"security.protocol": "SSL", "ssl.ca.location": str(authority.ca), **files}
            clients = {
                name: {"bootstrap.servers": brokers.address(handle, "TLS"), **same}
                for name, handle in sandbox.clusters.items()
            }
            yield Login(sandbox.clusters, clients, {}, "certificate", refuse, allow)
    finally:
        over.set()

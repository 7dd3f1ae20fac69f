"""Resolves secrets at the moment of their use: in client settings of a principal, and passwords of users.

This module imports no Kafka client, so that reads can begin before one is imported.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ClusterError, SecretError
from reconciler.kafka.address import host_port, url_address
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.supported_settings import FILES, TOKEN_ENDPOINT, forbidden
from reconciler.model.environment.services import IAM_RIGHTS, offer_of
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.allowed import TOKEN_GROUP, VARIABLE, allowed, provider_permitted
from reconciler.replication.secret_references import REFERENCE, SET_IT, MissingReference, is_from_outside, resolve

_SECRET_KEYS = ("password", "secret", "pem", "oauthbearer.config", "private.key")


def client_settings(cluster: Cluster, principal: Principal) -> dict[str, str]:
    """librdkafka settings that contain secrets: pass them to a client at once, and store them nowhere.

    Raises SecretError for an unresolvable reference, ClusterError for a cluster that must not be contacted with these
    settings. Every new connection gets its settings here.
    """
    require_trusted(cluster, principal)
    ours = {"client.id": "reconciler", "socket.connection.setup.timeout.ms": "8000"}
    raw = {**ours, **cluster.client_for(principal), "bootstrap.servers": ",".join(cluster.bootstrap_servers)}
    return resolved_each(raw, f"cluster {cluster.name}, principal {principal}, setting ", "no connection can be opened")


def resolved_each(texts: Mapping[str, str], owner: str, lost: str) -> dict[str, str]:
    """``texts`` with resolved references. Raises SecretError, which names ``owner`` and the key, and ``lost``: the
    consequence."""
    resolved: dict[str, str] = {}
    for key, text in texts.items():
        try:
            resolved |= resolve({key: text}, os.environ, read_secret)
        except MissingReference as error:
            raise SecretError(f"{owner}{key}: {error}", f"Without it {lost}", error.todo) from None
    return resolved


def require_trusted(cluster: Cluster, principal: Principal) -> None:
    """Raises ClusterError before a secret is read. ``validate`` reports most problems earlier; this function enforces
    them."""
    if cluster.not_contacted:
        listed = f", or add {' '.join(cluster.listable)} to {VARIABLE} there" if cluster.listable else ""
        raise ClusterError(
            cluster.name,
            "withheld",
            f"cluster {cluster.name} is not planned, connection changed: {cluster.not_contacted}",
            "Credentials go only where the base says, because an edit could send them anywhere",
            f"Let it be reviewed; then plan with --allow-new-address{listed}",
        )
    # A setting outside of the list could load a library or call a shell even before the first connection.
    client = cluster.client_for(principal)
    if refused := forbidden(client):
        raise ClusterError(
            cluster.name, "invalid", f"cluster {cluster.name}: {refused[0].what}", refused[0].why, refused[0].todo
        )
    allow = allowed(os.environ)
    method = client.get("sasl.oauthbearer.method", "")
    if ":" in method and not provider_permitted(method, allow):
        raise ClusterError(
            cluster.name,
            "withheld",
            f"cluster {cluster.name} is not contacted: sasl.oauthbearer.method is {method}, which nothing allows",
            "To import a provider of tokens is to run its code",
            f"Set {VARIABLE}=token:{method} where this program runs, or declare it as an entry point {TOKEN_GROUP}",
        )
    # Credentials go to these addresses. A malformed one is refused, because two clients could parse it differently.
    # Token endpoints are checked at each use, so here only against a list of allowed hosts.
    try:
        addresses = [str(host_port(server)) for server in cluster.bootstrap_servers]
        if "host" in allow.patterns and (endpoint := client.get(TOKEN_ENDPOINT)) is not None:
            addresses.append(str(url_address(endpoint)))
    except ValueError as error:
        raise ClusterError(
            cluster.name,
            "invalid",
            f"cluster {cluster.name} is not contacted: {error}",
            "Credentials go only where every program that reads the address sends them",
            "Write one host:port in each bootstrap server, and https://host:port/path as token endpoint",
        ) from None
    hosts = [address for address in addresses if not allow.permits("host", address)]
    files = [
        f"{name} {path}"
        for name, path in client.items()
        if name in FILES and not is_from_outside(path) and not allow.permits("file", path)
    ]
    if hosts or files:
        raise ClusterError(
            cluster.name,
            "withheld",
            f"cluster {cluster.name} is not contacted: {VARIABLE} does not list {', '.join((*hosts, *files))}",
            f"Where {VARIABLE} lists addresses or folders, only those are used",
            f"Correct the topology, or add it to {VARIABLE} where this program runs",
        )


def speaker_of(cluster: Cluster, principal: Principal) -> Speaker:
    """The principal, for errors: its name as the broker sees it, as far as settings show it. ``as_plan``: it logs in
    like the plan principal, so a missing right may only be a missing login in the file."""
    settings = cluster.client_for(principal)
    plaintext = settings.get("security.protocol", "plaintext").lower() == "plaintext"
    user = settings.get("sasl.username", "ANONYMOUS" if plaintext else "")
    known = user if user and not REFERENCE.search(user) else f"<principal {principal}>"
    servers = cluster.bootstrap_servers
    as_plan = (
        principal is not Principal.PLAN
        and principal not in cluster.principals
        and not plaintext
        and settings == cluster.client_for(Principal.PLAN)
    )
    offer = offer_of(cluster)
    if settings.get("sasl.oauthbearer.method") == "aws_msk_iam":
        offer = replace(offer, rights=IAM_RIGHTS)
    return Speaker(cluster.name, servers, str(principal), f"User:{known}", offer, as_plan)


def cleaned(words: str, cluster: Cluster, principal: Principal) -> str:
    """``words`` of a client or broker with secrets removed."""
    for secret in secrets_in(cluster.client_for(principal), client_settings(cluster, principal)):
        words = words.replace(secret, "***")
    return words


def secrets_in(raw: Mapping[str, str], resolved: Mapping[str, str]) -> tuple[str, ...]:
    """Values that no output may contain: resolved references, and values of secret keys."""
    secrets = {
        value
        for key, value in resolved.items()
        if value and (REFERENCE.search(raw.get(key, "")) or any(word in key for word in _SECRET_KEYS))
    }
    return tuple(sorted(secrets, key=len, reverse=True))


def secret(reference: str) -> str:
    """The present value of ``${env:NAME}`` or ``${file:PATH}``. Raises SecretError."""
    try:
        text = resolve({"": reference}, os.environ, read_secret)[""]
    except MissingReference as error:
        raise SecretError(str(error), todo=error.todo) from None
    if not text:
        raise SecretError(f"{reference}: it is empty", todo=SET_IT)
    return text


def require_secrets(wanted: Iterable[tuple[str, str]]) -> None:
    """``wanted``: owners and references. Raises one SecretError that names all unresolvable ones."""
    missing, todo = [], []
    for whose, reference in wanted:
        try:
            secret(reference)
        except SecretError as error:
            missing.append(f"  {whose}: {error.what}")
            todo.append(error.todo)
    if missing:
        why, words = "\n".join(missing), "\n".join(dict.fromkeys(todo))
        raise SecretError("nothing was applied: passwords of users cannot be had", why, words)

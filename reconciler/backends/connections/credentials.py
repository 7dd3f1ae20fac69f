"""The client settings of a principal with its secrets resolved, and its name for error messages.

Imports no Kafka client, so that reads can begin before one is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.backends.connections.errors import Speaker
from reconciler.errors import SecretError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.secret_references import REFERENCE, MissingReference, resolve

_SECRET_KEYS = ("password", "secret", "pem", "oauthbearer.config", "private.key")


def client_settings(cluster: Cluster, principal: Principal) -> dict[str, str]:
    """librdkafka settings with secrets in them: hand them to a client at once, keep them nowhere else.

    Raises SecretError for a reference that cannot be resolved.
    """
    ours = {"client.id": "reconciler", "socket.connection.setup.timeout.ms": "8000"}
    raw = {**ours, **cluster.client_for(principal), "bootstrap.servers": ",".join(cluster.bootstrap_servers)}
    resolved: dict[str, str] = {}
    for key, value in raw.items():
        try:
            resolved |= resolve({key: value}, os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
        except (MissingReference, UnicodeDecodeError) as error:
            description = str(error) if isinstance(error, MissingReference) else f"{value}: not a text file"
            raise SecretError(
                f"cluster {cluster.name}, principal {principal}, setting {key}: {description}",
                "Without it no connection can be opened",
                "Set the variable or the file for this process, or correct the reference in the topology.",
            ) from None
    return resolved


def speaker_of(cluster: Cluster, principal: Principal) -> Speaker:
    settings = cluster.client_for(principal)
    plaintext = settings.get("security.protocol", "plaintext").lower() == "plaintext"
    user = settings.get("sasl.username", "ANONYMOUS" if plaintext else "")
    known = user if user and not REFERENCE.search(user) else f"<principal {principal}>"
    return Speaker(cluster.name, cluster.bootstrap_servers, str(principal), f"User:{known}")


def cleaned(words: str, cluster: Cluster, principal: Principal) -> str:
    """``words`` of a client or broker, without secrets."""
    for secret in secrets_in(cluster.client_for(principal), client_settings(cluster, principal)):
        words = words.replace(secret, "***")
    return words


def secrets_in(raw: Mapping[str, str], resolved: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must never be shown: those that came from a reference, and those under a secret key."""
    secrets = {
        value
        for key, value in resolved.items()
        if value and (REFERENCE.search(raw.get(key, "")) or any(word in key for word in _SECRET_KEYS))
    }
    return tuple(sorted(secrets, key=len, reverse=True))

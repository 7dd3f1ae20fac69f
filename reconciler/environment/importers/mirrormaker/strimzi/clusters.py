"""One end of a mirror of Strimzi: its address, and how its connectors log in there, as settings of Kafka's clients.

Border: fields in, settings out. Secrets of Kubernetes are named and never read.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.mirrormaker.strimzi_fields import Fields, Settings, is_null
from reconciler.yaml_nodes import Entry, Mapping, Node

_OF_WORKERS = {
    "groupId": "group.id", "configStorageTopic": "config.storage.topic", "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}  # fmt: skip
_SCRAM = {"scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}


@dataclass(slots=True)
class Cluster:
    """One end of a mirror: its address, and how Strimzi logs in there."""

    fields: Fields
    prefix: str
    node: Mapping
    settings: Settings

    def read(self) -> None:
        for key, name in (("alias", "alias"), ("bootstrapServers", "bootstrap.servers")):
            self._put(name, self.fields.text(self.node, key), self.node.entries.get(key, self.node))
        for key, entry in self.node.entries.items():
            match key:
                case "alias" | "bootstrapServers" | "tls" | "authentication" | "config":
                    pass
                case _ if key in _OF_WORKERS:
                    self._put(_OF_WORKERS[key], self.fields.text(self.node, key), entry)
                case _:
                    self.fields.unknown(key, entry)
        self._protocol()
        self.fields.configs(self.node, self.prefix, self.settings)

    def _put(self, name: str, value: str, node: Node | Entry) -> None:
        self.settings.put(f"{self.prefix}{name}", value, node)

    def _protocol(self) -> None:
        tls, login = self.node.entries.get("tls"), self.node.entries.get("authentication")
        encrypted = tls is not None and not is_null(tls.value)
        sasl = False
        if tls is not None and encrypted:
            self._trust(self.fields.inside(self.node, "tls"), tls)
        if login is not None and not is_null(login.value):
            sasl = self._login(self.fields.inside(self.node, "authentication"), login)
        protocol = {(False, False): "", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}
        if found := protocol.get((encrypted, sasl), "SASL_SSL"):
            self._put("security.protocol", found, tls or login or self.node)

    def _trust(self, tls: Mapping, entry: Entry) -> None:
        found = [
            _secret(self.fields.text(one, "secretName"), self.fields.text(one, _first(one, "certificate", "pattern")))
            for one in self.fields.items(tls, "trustedCertificates")
        ]
        if found:
            self._put("ssl.truststore.certificates", "".join(found), tls.entries["trustedCertificates"])
        for key in (key for key in tls.entries if key != "trustedCertificates"):
            self.fields.unknown(f"tls.{key}", entry)

    def _login(self, login: Mapping, entry: Entry) -> bool:
        """Is it SASL?"""
        kind = self.fields.text(login, "type")
        known = {"type"}
        sasl = True
        match kind:
            case "tls":
                pair = self.fields.inside(login, "certificateAndKey")
                name = self.fields.text(pair, "secretName")
                self._put("ssl.keystore.certificate.chain", _secret(name, self.fields.text(pair, "certificate")), pair)
                self._put("ssl.keystore.key", _secret(name, self.fields.text(pair, "key")), pair)
                known, sasl = {"type", "certificateAndKey"}, False
            case "plain" | "scram-sha-256" | "scram-sha-512":
                secret = self.fields.inside(login, "passwordSecret")
                password = _secret(self.fields.text(secret, "secretName"), self.fields.text(secret, "password"))
                module = "PlainLoginModule" if kind == "plain" else "ScramLoginModule"
                self._jaas(entry, module, username=self.fields.text(login, "username"), password=password)
                self._put("sasl.mechanism", _SCRAM.get(kind, "PLAIN"), entry)
                known = {"type", "username", "passwordSecret"}
            case "oauth":
                self._oauth(login, entry)
                known = {"type", "tokenEndpointUri", "clientId", "clientSecret", "scope"}
            case "custom":
                sasl = self.fields.text(login, "sasl", needed=False).lower() == "true"
                self.fields.configs(login, self.prefix, self.settings)
                known = {"type", "sasl", "config"}
            case _:
                self.fields.mistake(
                    entry, f'authentication.type is "{kind}", which is not known here. Nobody could log in. Correct it.'
                )
        for key in (key for key in login.entries if key not in known):
            words = f"authentication.{key} is not taken over. Where it is needed, write it under client"
            self.fields.made.different.append(f"{self.fields.where(login.entries[key])}: {words}")
        return sasl

    def _oauth(self, login: Mapping, entry: Entry) -> None:
        secret = self.fields.inside(login, "clientSecret")
        options = {"clientId": self.fields.text(login, "clientId", needed=False)}
        if secret.entries:
            options["clientSecret"] = _secret(self.fields.text(secret, "secretName"), self.fields.text(secret, "key"))
        if "scope" in login.entries:
            options["scope"] = self.fields.text(login, "scope")
        self._jaas(entry, "OAuthBearerLoginModule", **{name: text for name, text in options.items() if text})
        self._put("sasl.mechanism", "OAUTHBEARER", entry)
        if "tokenEndpointUri" in login.entries:
            self._put("sasl.oauthbearer.token.endpoint.url", self.fields.text(login, "tokenEndpointUri"), entry)

    def _jaas(self, entry: Entry, module: str, **options: str) -> None:
        said = " ".join(f'{name}="{_escaped(text)}"' for name, text in options.items())
        self._put("sasl.jaas.config", f"{module} required {said};", entry)


def _first(outer: Mapping, *keys: str) -> str:
    return next((key for key in keys if key in outer.entries), keys[0])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _secret(name: str, key: str) -> str:
    """As Strimzi's own config provider has it; what a Secret holds becomes a variable."""
    return f"${{strimzisecrets:{name}:{key}}}"

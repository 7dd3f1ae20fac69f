"""Reads fields of a Strimzi resource; one end of its mirror, address and login, as settings of Kafka's clients.

Secrets of Kubernetes are named and never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Notes
from reconciler.environment.yaml.nodes import Document, Entry, Mapping, Node, Scalar
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.errors import Where

Settings = dict[str, Property]
"""Of one connector, by name."""

_OF_WORKERS = {
    "groupId": "group.id", "configStorageTopic": "config.storage.topic", "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}  # fmt: skip
_SCRAM = {"scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}


@dataclass(frozen=True, slots=True)
class StrimziFields:
    """Fields of a resource in its YAML: present, missing, not known; what is to be told goes to ``notes``."""

    document: Document
    notes: Notes

    def where(self, node: Node | Entry) -> Where:
        return self.document.where(node)

    def mistake(self, node: Node | Entry, words: str) -> None:
        self.notes.wrong(self.where(node), words)

    def differs(self, node: Node | Entry, words: str) -> None:
        self.notes.differs(f"{self.where(node)}: {words}")

    def unknown(self, name: str, entry: Entry) -> None:
        self.differs(entry, f"{name} is no field of a KafkaMirrorMaker2 that is known here, and is left out")

    def inside(self, outer: Mapping, key: str) -> Mapping:
        """What is not there is empty; what is something else is a mistake."""
        entry = outer.entries.get(key)
        if entry is None or is_null(entry.value):
            return Mapping({}, entry.line if entry else outer.line, entry.column if entry else outer.column, 1)
        if isinstance(entry.value, Mapping):
            return entry.value
        self.mistake(entry, f"{key}: it is no mapping. Strimzi refuses it, too. Correct it.")
        return Mapping({}, entry.line, entry.column, 1)

    def items(self, outer: Mapping, key: str, *, needed: bool = False) -> Iterator[Mapping]:
        entry = outer.entries.get(key)
        if entry is not None and isinstance(entry.value, YamlSequence):
            for item in entry.value.items:
                if isinstance(item, Mapping):
                    yield item
                else:
                    self.mistake(item, f"{key}: an item is no mapping. Strimzi refuses it, too. Correct it.")
        elif needed:
            self.mistake(entry or outer, f"{key} is no list of mirrors. Nothing is copied without it. Add it.")

    def text(self, outer: Mapping, key: str, *, needed: bool = True) -> str:
        entry = outer.entries.get(key)
        if entry is not None and isinstance(entry.value, Scalar) and not is_null(entry.value):
            return entry.value.text
        if needed or (entry is not None and not isinstance(entry.value, Scalar)):
            self.mistake(entry or outer, f"{key} is not there, or is no text. Strimzi needs it, too. Correct it.")
        return ""

    def configs(self, outer: Mapping, prefix: str, settings: Settings) -> None:
        for key, entry in self.inside(outer, "config").entries.items():
            if not isinstance(entry.value, Scalar):
                self.mistake(entry, f"{key}: it is no text. Strimzi refuses it, too. Correct it.")
            elif is_null(entry.value):
                self.differs(entry, f"{key} is null, which says nothing")
            else:
                self.put(settings, f"{prefix}{key}", entry.value.text, entry)

    def put(self, settings: Settings, name: str, value: str, node: Node | Entry) -> None:
        """In the order of the operator: what comes later counts."""
        if name in settings and settings[name].value.strip() != value.strip():
            self.differs(node, f"it sets {name}, so line {settings[name].where.line} does not count")
        settings[name] = Property(name, value, self.where(node))


@dataclass(slots=True)
class StrimziCluster:
    """One end of a mirror: its address, and how Strimzi logs in there."""

    fields: StrimziFields
    prefix: str
    node: Mapping
    settings: Settings

    def read(self) -> None:
        for key, name in (("alias", "alias"), ("bootstrapServers", "bootstrap.servers")):
            self._put(name, self.fields.text(self.node, key), self.node.entries.get(key, self.node))
        for key, entry in self.node.entries.items():
            if key in _OF_WORKERS:
                self._put(_OF_WORKERS[key], self.fields.text(self.node, key), entry)
            elif key not in ("alias", "bootstrapServers", "tls", "authentication", "config"):
                self.fields.unknown(key, entry)
        self._protocol()
        self.fields.configs(self.node, self.prefix, self.settings)

    def _put(self, name: str, value: str, node: Node | Entry) -> None:
        self.fields.put(self.settings, f"{self.prefix}{name}", value, node)

    def _protocol(self) -> None:
        tls, login = self.node.entries.get("tls"), self.node.entries.get("authentication")
        encrypted = tls is not None and not is_null(tls.value)
        sasl = False
        if tls is not None and encrypted:
            self._trust(self.fields.inside(self.node, "tls"), tls)
        if login is not None and not is_null(login.value):
            sasl = self._login(self.fields.inside(self.node, "authentication"), login)
        protocol = {(False, False): "", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}
        if text := protocol.get((encrypted, sasl), "SASL_SSL"):
            self._put("security.protocol", text, tls or login or self.node)

    def _trust(self, tls: Mapping, entry: Entry) -> None:
        names = [
            _secret(self.fields.text(mapping, "secretName"), self.fields.text(mapping, _certificate_key(mapping)))
            for mapping in self.fields.items(tls, "trustedCertificates")
        ]
        if names:
            self._put("ssl.truststore.certificates", "".join(names), tls.entries["trustedCertificates"])
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
                words = f'authentication.type is "{kind}", which is not known here. Nobody could log in. Correct it.'
                self.fields.mistake(entry, words)
        for key in (key for key in login.entries if key not in known):
            words = f"authentication.{key} is not taken over. Where it is needed, write it under client"
            self.fields.differs(login.entries[key], words)
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


def _certificate_key(outer: Mapping) -> str:
    return next((key for key in ("certificate", "pattern") if key in outer.entries), "certificate")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _secret(name: str, key: str) -> str:
    """As Strimzi's own config provider has it; what a Secret holds becomes a variable."""
    return f"${{strimzisecrets:{name}:{key}}}"


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.data is None

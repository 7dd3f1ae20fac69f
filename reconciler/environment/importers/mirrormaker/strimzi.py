"""Strimzi's ``KafkaMirrorMaker2`` resource as the connectors that its operator makes of it, and its ``KafkaConnector``
(v1beta2, v1).

Secrets of Kubernetes are named and never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reconciler.environment.importers.mirrormaker import flows, properties_file, token_logins
from reconciler.environment.importers.mirrormaker.connectors import (
    CHECKPOINT,
    HEARTBEAT,
    KINDS,
    SOURCE,
    Connector,
    another,
    kind_of,
    of_settings,
)
from reconciler.environment.yaml.nodes import Document, Entry, Mapping, Node, Scalar
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.environment.yaml.read import read as read_yaml
from reconciler.errors import Where

Settings = dict[str, properties_file.Property]
"""Settings of one connector, by name."""

_OF_WORKERS = {
    "groupId": "group.id", "configStorageTopic": "config.storage.topic", "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}  # fmt: skip
_SCRAM = {"scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}
_KIND = re.compile(
    r"""^[ \t{,]*["']?kind["']?[ \t]*:[ \t]*["']?(KafkaMirrorMaker2|KafkaConnector)["']?[ \t]*[,}]?[ \t\r]*(#.*)?$""",
    re.M,
)
_UNSAFE = re.compile(r"(?<=[:,{[-][ \t])!unsafe(?=[ \t])")
"""Ansible's tag for a text without templating."""
_CONNECTORS = {"sourceConnector": SOURCE, "checkpointConnector": CHECKPOINT, "heartbeatConnector": HEARTBEAT}
_PATTERNS = {
    "topicsPattern": "topics", "topicsBlacklistPattern": "topics.exclude", "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups", "groupsBlacklistPattern": "groups.exclude", "groupsExcludePattern": "groups.exclude",
}  # fmt: skip
_OF_PODS = frozenset({
    "replicas", "image", "connectCluster", "resources", "livenessProbe", "readinessProbe", "jvmOptions",
    "jmxOptions", "logging", "clientRackInitImage", "metricsConfig", "tracing", "template", "externalConfiguration",
})  # fmt: skip
_OF_OPERATOR = frozenset({"autoRestart", "version", "listOffsets", "alterOffsets"})
_OAUTH = {
    "clientId": "oauth.client.id", "tokenEndpointUri": "oauth.token.endpoint.uri", "scope": "oauth.scope",
    "audience": "oauth.audience", "clientAssertionLocation": "oauth.client.assertion.location",
}  # fmt: skip
_OAUTH_GIVEN = ("accessToken", "accessTokenLocation", "refreshToken", "clientAssertion", "username", "passwordSecret")
_OAUTH_OF_PODS = (
    "maxTokenExpirySeconds", "accessTokenIsJwt", "enableMetrics", "connectTimeoutSeconds", "readTimeoutSeconds",
    "httpRetries", "httpRetryPauseMs", "includeAcceptHeader", "clientAssertionType", "grantType",
)  # fmt: skip
"""Options without effect here: request details and client metadata."""
PODS = "of Strimzi's pods and its operator; the mirror runs where Spark runs"
_OFFSETS_TOPIC = "mirrormaker2-cluster-offsets"


def is_resource(text: str) -> bool:
    return bool(_KIND.search(text))


def read(file: str, text: str, notes: properties_file.Notes) -> Iterator[Connector]:
    """Connectors of all Strimzi resources in the file; other resources are skipped."""
    bounds = [0, *(match.end() for match in re.finditer(r"^---[ \t\r]*(#.*)?$", text, re.M)), len(text)]
    for begin, end in pairwise(bounds):
        # Blank lines in place of the documents before it keep its line numbers.
        document = re.sub(r"^---[ \t\r]*(#.*)?\Z", "", text[begin:end], flags=re.M)
        if is_resource(document):
            part = "\n" * text.count("\n", 0, begin) + _UNSAFE.sub(lambda match: " " * len(match.group()), document)
            yield from _Reader(_Fields(read_yaml(file, part, of_any_tool=True), notes)).connectors()


@dataclass(slots=True)
class _Reader:
    fields: _Fields

    def connectors(self) -> Iterator[Connector]:
        """Connectors of ``KafkaMirrorMaker2`` and ``KafkaConnector`` resources. Fields about pods are skipped, and
        every unknown field is reported: a silently lost setting would change copying."""
        if self.fields.document.problems or self.fields.document.root is None:
            for problem in self.fields.document.problems:
                self.fields.notes.wrong(problem.where, f"{problem.what}. {problem.why}. {problem.todo}.")
            return
        for resource in _resources(self.fields.document.root):
            spec = self.fields.inside(resource, "spec")
            if resource.entries["kind"].value.data == "KafkaConnector":
                yield from self._alone(resource, spec)
                continue
            for mirror in self.fields.items(spec, "mirrors", needed=True):
                yield from self._mirror(spec, mirror)
            for key in (key for key in resource.entries if key in ("metadata", "status")):
                self.fields.notes.skips(key, "of Kubernetes")
            for key, entry in spec.entries.items():
                if key == "rack":
                    words = "consumers read from brokers of another rack, too; write client.rack under client"
                    self.fields.differs(entry, f"rack is not taken over: {words}")
                elif key in _OF_PODS:
                    self.fields.notes.skips(f"spec.{key}", PODS)
                elif key not in ("clusters", "target", "mirrors", "version"):
                    self.fields.unknown(f"spec.{key}", entry)

    def _alone(self, resource: Mapping, spec: Mapping) -> Iterator[Connector]:
        """A ``KafkaConnector``: its config is all that the connector is given."""
        name = self.fields.text(self.fields.inside(resource, "metadata"), "name")
        kind, where = kind_of(self.fields.text(spec, "class")), self.fields.where(resource)
        if kind in KINDS:
            yield of_settings(name, kind, self._settings(kind, kind, spec, Settings()), where)
        elif kind:
            another(where, f"connector {name}", kind, self.fields.notes)

    def _mirror(self, spec: Mapping, mirror: Mapping) -> Iterator[Connector]:
        """Connectors of one ``mirrors`` entry. Without a source connector it copies nothing and gives no flow."""
        target = self._end(spec, mirror, "target")
        source = self._end(spec, mirror, "source")
        if target is None or source is None:
            return
        flow = (self.fields.text(source, "alias"), self.fields.text(target, "alias"))
        copies = mirror.entries.get("sourceConnector")
        if copies is None or _is_null(copies.value):
            words = f"the mirror {flow[0]}->{flow[1]} has no sourceConnector, so it copies nothing, and is left out"
            self.fields.differs(copies or mirror, words)
            return
        # Connect's producer writes to Connect's own cluster. With another target the file names one flow and would run
        # another.
        connect = self._end(spec, Mapping({}, mirror.line, mirror.column, 1), "target") or target
        if self.fields.text(connect, "bootstrapServers") != self.fields.text(target, "bootstrapServers"):
            there = self.fields.text(connect, "alias")
            why = f"Strimzi from 0.41 refuses that, and earlier ones write all records to {there}"
            todo = f"If nothing of it runs, take the mirror away; else write {flow[1]} or {there} on both lines"
            words = f"connectCluster is {there}, and a mirror's target is {flow[1]}. {why}. {todo}."
            self.fields.mistake(mirror.entries.get("targetCluster", mirror), words)
            return
        for key, entry in mirror.entries.items():
            if key in _CONNECTORS and isinstance(entry.value, Mapping):
                yield self._connector(flow, (source, target), spec, mirror, entry)
            elif key not in (*_PATTERNS, *_CONNECTORS, "source", "sourceCluster", "targetCluster"):
                self.fields.unknown(f"mirrors.{key}", entry)
            elif key in _CONNECTORS and not _is_null(entry.value):
                self.fields.mistake(entry, f"{key}: it is no mapping. Strimzi refuses it, too. Correct it.")
            elif key.startswith("groups") and "checkpointConnector" not in mirror.entries:
                words = "no checkpointConnector uses it"
                self.fields.differs(entry, f"{key} has no effect, and is left out: {words}")

    def _end(self, spec: Mapping, mirror: Mapping, side: str) -> Mapping | None:
        """One side's cluster: inline as in v1, else by its alias in ``clusters``."""
        outer = spec if side == "target" else mirror
        if side in outer.entries:
            return self.fields.inside(outer, side)
        by_alias = mirror if f"{side}Cluster" in mirror.entries or side == "source" else spec
        key = f"{side}Cluster" if by_alias is mirror else "connectCluster"
        alias = self.fields.text(by_alias, key)
        mappings = [
            mapping for mapping in self.fields.items(spec, "clusters") if self.fields.text(mapping, "alias") == alias
        ]
        if alias and not mappings:
            words = f'no cluster of clusters has the alias "{alias}". The mirror has no such end. Correct it.'
            self.fields.mistake(by_alias.entries.get(key, mirror), f"{key}: {words}")
        return mappings[0] if mappings else None

    def _connector(
        self, flow: properties_file.Flow, ends: tuple[Mapping, Mapping], spec: Mapping, mirror: Mapping, entry: Entry
    ) -> Connector:
        """The connector with settings of both clusters, as Strimzi writes them into it."""
        kind, settings = _CONNECTORS[entry.key], Settings()
        for side, end in (("target", ends[1]), ("source", ends[0])):
            _Cluster(self.fields, f"{side}.cluster.", end, settings).read()
        self._settings(kind, entry.key, self.fields.inside(mirror, entry.key), settings)
        for key, name in _PATTERNS.items():
            if _given(mirror, key) and (name.startswith("topics") or kind == CHECKPOINT) and kind != HEARTBEAT:
                self.fields.put(settings, name, self.fields.text(mirror, key), mirror.entries[key])
        if kind == SOURCE and _given(spec, "version"):
            self.fields.put(settings, flows.VERSION, self.fields.text(spec, "version"), spec.entries["version"])
        topic = settings.get("target.cluster.offset.storage.topic")
        offsets_topic = topic.value.strip() if topic else _OFFSETS_TOPIC
        named = f"{flow[0]}->{flow[1]}.{kind}"
        return Connector(named, kind, flow, self.fields.where(entry), tuple(settings.values()), offsets_topic)

    def _settings(self, kind: str, shown: str, inside: Mapping, settings: Settings) -> Settings:
        """Adds a connector's other settings to ``settings``; ``shown``: words for the connector."""
        self.fields.configs(inside, "", settings)
        for key, each_entry in inside.entries.items():
            if not _given(inside, key):
                continue
            if key == "tasksMax":
                self.fields.put(settings, "tasks.max", self.fields.text(inside, key), each_entry)
            elif key in ("pause", "state"):
                said = each_entry.value.text if isinstance(each_entry.value, Scalar) else ""
                if said.lower() in ("true", "paused", "stopped") and kind == SOURCE:
                    words = f"{key} is {said}, so nothing is copied now; the flow will copy once it is applied. Leave"
                    hold = "hold it still by mirror pause"
                    self.fields.differs(each_entry, f"{words} it out of the files until then, or {hold}")
                else:
                    words = "`mirror pause` holds a flow, a topic or a partition still"
                    self.fields.notes.skips(f"{kind}'s {key}", words)
            elif key in _OF_OPERATOR:
                self.fields.notes.skips(f"{shown}.{key}", PODS)
            elif key not in ("config", "class"):
                self.fields.unknown(f"{shown}.{key}", each_entry)
        return settings


def _given(outer: Mapping, key: str) -> bool:
    """Whether a field has a value; for Kubernetes a null is a field that is left out."""
    return key in outer.entries and not _is_null(outer.entries[key].value)


def _resources(root: Node) -> Sequence[Mapping]:
    """The resource, or the resources in a ``List`` or in Ansible tasks."""
    if isinstance(root, YamlSequence):
        return [mapping for item in root.items for mapping in _resources(item)]
    if not isinstance(root, Mapping):
        return ()
    kind = root.entries.get("kind")
    if kind is not None and kind.value.data in ("KafkaMirrorMaker2", "KafkaConnector"):
        return (root,)
    return [mapping for entry in root.entries.values() for mapping in _resources(entry.value)]


@dataclass(frozen=True, slots=True)
class _Fields:
    """Fields of a resource in its YAML. Missing, unknown and mistyped fields go to ``notes``."""

    document: Document
    notes: properties_file.Notes

    def where(self, node: Node | Entry) -> Where:
        return self.document.where(node)

    def mistake(self, node: Node | Entry, words: str) -> None:
        self.notes.wrong(self.where(node), words)

    def differs(self, node: Node | Entry, words: str) -> None:
        self.notes.differs(f"{self.where(node)}: {words}")

    def unknown(self, name: str, entry: Entry) -> None:
        self.differs(entry, f"{name} is no field of a KafkaMirrorMaker2 that is known here, and is left out")

    def inside(self, outer: Mapping, key: str) -> Mapping:
        """A field that is missing is empty; one that is no mapping is a mistake."""
        entry = outer.entries.get(key)
        if entry is None or _is_null(entry.value):
            return Mapping({}, entry.line if entry else outer.line, entry.column if entry else outer.column, 1)
        if isinstance(entry.value, Mapping):
            return entry.value
        self.mistake(entry, f"{key}: it is no mapping. Strimzi refuses it, too. Correct it.")
        return Mapping({}, entry.line, entry.column, 1)

    def items(self, outer: Mapping, key: str, *, needed: bool = False) -> Iterator[Mapping]:
        """Mappings in a list; any other item is a mistake, which Strimzi would refuse, too."""
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
        if entry is not None and isinstance(entry.value, Scalar) and not _is_null(entry.value):
            return entry.value.text
        if needed or (entry is not None and not isinstance(entry.value, Scalar)):
            self.mistake(entry or outer, f"{key} is missing, or is no text. Strimzi needs it, too. Correct it.")
        return ""

    def configs(self, outer: Mapping, prefix: str, settings: Settings) -> None:
        """``config`` as Connect gets it, key by key."""
        for key, entry in self.inside(outer, "config").entries.items():
            if not isinstance(entry.value, Scalar):
                self.mistake(entry, f"{key}: it is no text. Strimzi refuses it, too. Correct it.")
            elif _is_null(entry.value):
                self.differs(entry, f"{key} is null, which says nothing")
            else:
                self.put(settings, f"{prefix}{key}", entry.value.text, entry)

    def put(self, settings: Settings, name: str, value: str, node: Node | Entry) -> None:
        """Adds a setting in the operator's order: a later one overrides an earlier one."""
        if name in settings and settings[name].value.strip() != value.strip():
            self.differs(node, f"it sets {name}, so line {settings[name].where.line} does not count")
        settings[name] = properties_file.Property(name, value, self.where(node))


@dataclass(slots=True)
class _Cluster:
    """One end of a mirror: its address, and how Strimzi logs in there."""

    fields: _Fields
    prefix: str
    node: Mapping
    settings: Settings

    def read(self) -> None:
        """Settings in MirrorMaker 2's own names, as the operator would write them into its file."""
        for key, name in (("alias", "alias"), ("bootstrapServers", "bootstrap.servers")):
            self._put(name, self.fields.text(self.node, key), self.node.entries.get(key, self.node))
        for key, entry in self.node.entries.items():
            if key in _OF_WORKERS:
                self._put(_OF_WORKERS[key], self.fields.text(self.node, key), entry)
            elif key not in ("alias", "bootstrapServers", "tls", "authentication", "config"):
                self.fields.unknown(key, entry)

        tls, login = self.node.entries.get("tls"), self.node.entries.get("authentication")
        encrypted = tls is not None and not _is_null(tls.value)
        sasl = False
        if tls is not None and encrypted:
            trusted = self.fields.inside(self.node, "tls")
            if names := self._certificates(trusted, "trustedCertificates"):
                self._put("ssl.truststore.certificates", names, trusted.entries["trustedCertificates"])
            for key in (key for key in trusted.entries if key != "trustedCertificates"):
                self.fields.unknown(f"tls.{key}", tls)
        if login is not None and not _is_null(login.value):
            sasl = self._login(self.fields.inside(self.node, "authentication"), login)
        protocol = {(False, False): "", (True, False): "SSL", (False, True): "SASL_PLAINTEXT"}
        if text := protocol.get((encrypted, sasl), "SASL_SSL"):
            self._put("security.protocol", text, tls or login or self.node)
        self.fields.configs(self.node, self.prefix, self.settings)  # last, so that it overrides

    def _put(self, name: str, value: str, node: Node | Entry) -> None:
        self.fields.put(self.settings, f"{self.prefix}{name}", value, node)

    def _login(self, login: Mapping, entry: Entry) -> bool:
        """Whether it is SASL."""
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
                known = {"type", *_OAUTH_OF_PODS, *_OAUTH_GIVEN, *_OAUTH, "clientSecret", "saslExtensions"}
                known |= {"tlsTrustedCertificates"}
            case "custom":
                sasl = self.fields.text(login, "sasl", needed=False).lower() == "true"
                self.fields.configs(login, self.prefix, self.settings)
                known = {"type", "sasl", "config"}
            case _:
                words = f'authentication.type is "{kind}", which is not known here. No client could log in. Correct it.'
                self.fields.mistake(entry, words)
        for key in (key for key in login.entries if key not in known):
            words = f"authentication.{key} is not taken over. Where it is needed, write it under client"
            self.fields.differs(login.entries[key], words)
        return sasl

    def _oauth(self, login: Mapping, entry: Entry) -> None:
        """OAuth settings in the form of Strimzi's callback handler."""
        for key in (key for key in _OAUTH_GIVEN if key in login.entries):
            words = "no such token or password can be renewed here. Give the mirror clientId and clientSecret"
            self.fields.mistake(login.entries[key], f"authentication.{key}: {words}, and import again.")
            return
        options = {name: self.fields.text(login, key) for key, name in _OAUTH.items() if key in login.entries}
        secret = self.fields.inside(login, "clientSecret")
        if secret.entries:
            options["oauth.client.secret"] = _secret(
                self.fields.text(secret, "secretName"), self.fields.text(secret, "key")
            )
        if trusted := self._certificates(login, "tlsTrustedCertificates"):
            options["oauth.ssl.truststore.certificates"] = trusted
        extensions = self.fields.inside(login, "saslExtensions")
        options |= {f"oauth.sasl.extension.{key}": self.fields.text(extensions, key) for key in extensions.entries}
        self._jaas(entry, "OAuthBearerLoginModule", **options)
        self._put("sasl.mechanism", "OAUTHBEARER", entry)
        self._put("sasl.login.callback.handler.class", token_logins.STRIMZI_HANDLER, entry)

    def _certificates(self, outer: Mapping, key: str) -> str:
        """Placeholders of all Secrets in a list; empty without one."""
        names = []
        for item in self.fields.items(outer, key):
            part = next((part for part in ("certificate", "pattern") if part in item.entries), "certificate")
            names.append(_secret(self.fields.text(item, "secretName"), self.fields.text(item, part)))
        return "".join(names)

    def _jaas(self, entry: Entry, module: str, **options: str) -> None:
        escaped = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in options.items()}
        said = " ".join(f'{name}="{text}"' for name, text in escaped.items())
        self._put("sasl.jaas.config", f"{module} required {said};", entry)


def _secret(name: str, key: str) -> str:
    """A placeholder of Strimzi's config provider; the Secret's content becomes a variable."""
    return f"${{strimzisecrets:{name}:{key}}}"


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.data is None

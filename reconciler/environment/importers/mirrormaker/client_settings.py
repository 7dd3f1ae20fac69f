"""How MirrorMaker 2 connects to a cluster, in librdkafka's settings. No secret is ever carried over.

Border: one cluster's properties in, lines of ``client`` out. Names on the left: Kafka's SslConfigs and SaslConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.mirrormaker.properties import Property
from reconciler.mirrormaker.scopes import Configuration, Notes

SECURITY = ("security.protocol", "ssl.", "sasl.")
_SAME = (
    "sasl.mechanism", "sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope",
    "client.rack",
)  # fmt: skip
_STORES = ("ssl.truststore.", "ssl.keystore.", "ssl.key.password")
_JAVA_ONLY = (
    "ssl.protocol", "ssl.provider", "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation", "ssl.engine.factory.class", "sasl.login.", "sasl.client.callback.handler.class",
    "sasl.kerberos.", "security.providers",
)  # fmt: skip
_OF_PEM = "none: certificates and keys are PEM"
_CERTIFICATES_ALONE = "none: certificates in PEM have no password"
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_REFERENCE = re.compile(r"\$\{([^:${}]+):([^${}]*)\}")
_SECRET = re.compile(r"\$\{strimzisecrets:(?:[^/:${}]*/)?([^:${}]+):([^${}]*)\}")
_CLIENT_PREFIX = re.compile(r"(consumer|producer|admin)\.(.+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of ``client``: ``origin`` is None where no line of the file says it."""

    name: str
    value: str
    origin: Property | None


@dataclass(slots=True)
class Client:
    """Takes one cluster's settings together; ``providers``: classes of config providers by their names."""

    cluster: str
    config: Configuration
    providers: Mapping[str, str]
    notes: Notes
    settings: list[Setting] = field(default_factory=list)

    def read(self) -> tuple[Setting, ...]:
        protocol = self._get("security.protocol")
        if protocol:
            self._add("security.protocol", protocol.value.strip().upper(), protocol)
        for name in _SAME:
            if one := self._get(name):
                self._add(name, self._plain(one, one.value.strip()), one)
        self._names()
        if one := self._get("sasl.jaas.config"):
            self._login(one)
        self._trust()
        self._key()
        self._others()
        return tuple(self.settings)

    def _get(self, name: str) -> Property | None:
        return self.config.of_client(self.cluster, name)

    def _add(self, name: str, value: str, origin: Property | None) -> None:
        self.settings.append(Setting(name, value, origin))

    def _names(self) -> None:
        """Java takes an empty text for no check of names."""
        name = "ssl.endpoint.identification.algorithm"
        if one := self._get(name):
            self._add(name, one.value.strip().lower() or "none", one)

    def _plain(self, one: Property, text: str) -> str:
        """A value that is no secret; a reference becomes one of ours."""
        return self._reference(_bare(one, self.cluster), one, text) or text

    def _secret(self, setting: str, text: str, one: Property) -> str:
        """A reference that stands for the secret; what it must hold is told, and never shown."""
        return self._reference(setting, one, text) or self._variable(setting, f"as in {one.name} at {one.where}")

    def _reference(self, setting: str, one: Property, text: str) -> str | None:
        """``${env:X}`` and a file of ``${directory:}`` are known here too; others are a variable to be set."""
        if "${" not in text:
            return None
        match = _REFERENCE.fullmatch(text)
        if match:
            provider, inside = match.groups()
            kind = self.providers.get(provider, provider).rsplit(".", 1)[-1]
            if kind in ("EnvVarConfigProvider", "env") and re.fullmatch(r":?[A-Za-z_]\w*", inside, re.ASCII):
                name = inside.lstrip(":")
                self.notes.secrets.setdefault(name, f"as for MirrorMaker 2, {one.where}")
                return f"${{env:{name}}}"
            path, _, key = inside.rpartition(":")
            if kind in ("DirectoryConfigProvider", "directory") and path and key:
                return f"${{file:{path.rstrip('/')}/{key}}}"
        if secrets := _SECRET.findall(text):
            named = " and ".join(f"{key} of the Secret {name}" for name, key in secrets)
            return self._variable(setting, f"{named}, {one.where}")
        return self._variable(setting, f"what the config provider gives for {one.name} at {one.where}")

    def _variable(self, setting: str, words: str) -> str:
        stem = name = re.sub(r"\W", "_", f"{self.cluster}_{setting}", flags=re.ASCII).upper()
        if name[0].isdigit():
            stem = name = f"KAFKA_{name}"
        number = 2
        owner = (self.cluster, setting)
        while self.notes.owners.setdefault(name, owner) != owner:
            name, number = f"{stem}_{number}", number + 1
        self.notes.secrets.setdefault(name, words)
        return f"${{env:{name}}}"

    def _login(self, one: Property) -> None:
        """JAAS: ``module flag option=value ...;``."""
        text = one.value.strip()
        if "${" in text and _REFERENCE.fullmatch(text):
            self._add("sasl.username", self._variable("sasl.username", f"the user in {one.name} at {one.where}"), one)
            password = self._variable("sasl.password", f"the password in {one.name} at {one.where}")
            self._add("sasl.password", password, one)
            return
        module = text.split()[0].rsplit(".", 1)[-1] if text.split() else ""
        options = {
            match.group(1): re.sub(r"\\(.)", r"\1", next(part for part in match.groups()[1:] if part is not None))
            for match in _OPTION.finditer(text)
        }
        match module:
            case "PlainLoginModule" | "ScramLoginModule":
                self._pairs(one, options, (("username", "sasl.username"), ("password", "sasl.password")))
            case "OAuthBearerLoginModule":
                self._add("sasl.oauthbearer.method", "oidc", one)
                of = "sasl.oauthbearer.client."
                self._pairs(one, options, (("clientId", f"{of}id"), ("clientSecret", f"{of}secret")))
                if "scope" in options and not self._get("sasl.oauthbearer.scope"):
                    self._add("sasl.oauthbearer.scope", self._plain(one, options["scope"]), one)
            case _:
                self.notes.mistake(
                    one,
                    "the login module is none of PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule. "
                    "librdkafka has nothing like it here, Kerberos and cloud identities included. "
                    "Give the mirror a SCRAM or TLS identity and import again.",
                )

    def _pairs(self, one: Property, options: Mapping[str, str], pairs: tuple[tuple[str, str], ...]) -> None:
        known = {option for option, _ in pairs} | {"scope"}
        if others := [option for option in options if option not in known]:
            words = f"{one.where}: {', '.join(others)} of the login module has no counterpart and is left out"
            self.notes.differs(words, of=one)
        for option, setting in pairs:
            if option not in options:
                self.notes.mistake(one, f"the login module has no {option}. Nobody could log in. Correct the line.")
            elif setting.endswith(("password", "secret")):
                self._add(setting, self._secret(setting, options[option], one), one)
            else:
                self._add(setting, self._plain(one, options[option]), one)

    def _trust(self) -> None:
        place, certificates = self._get("ssl.truststore.location"), self._get("ssl.truststore.certificates")
        if certificates:
            self._add("ssl.ca.pem", self._plain(certificates, certificates.value), certificates)
        elif place and "${" in place.value:
            self._add("ssl.ca.location", self._plain(place, place.value.strip()), place)
        elif place:
            path = place.value.strip()
            pem = path if self._is_pem("truststore") else self._certificates_pem(path)
            self._add("ssl.ca.location", pem, place)
            if pem != path:
                self.notes.differs(
                    f"{place.where}: certificates are read as PEM: keytool -list -rfc -keystore {path} > {pem}, "
                    "on each machine that runs a command or a job"
                )

    def _certificates_pem(self, path: str) -> str:
        """One store may hold both keys and certificates; they become two files."""
        keys = self._get("ssl.keystore.location")
        pem = _pem(path)
        return pem.removesuffix(".pem") + "-ca.pem" if keys and _pem(keys.value.strip()) == pem else pem

    def _key(self) -> None:
        place, chain = self._get("ssl.keystore.location"), self._get("ssl.keystore.certificate.chain")
        key = self._get("ssl.keystore.key")
        if chain:
            self._add("ssl.certificate.pem", self._plain(chain, chain.value), chain)
        if key:
            self._add("ssl.key.pem", self._secret("ssl.keystore.key", key.value.strip(), key), key)
        if place:
            path = place.value.strip()
            pem = path if self._is_pem("keystore") or "${" in path else _pem(path)
            for name in ("ssl.certificate.location", "ssl.key.location"):
                self._add(name, self._plain(place, pem), place)
            if pem != path:
                store = path if re.search(r"\.(p12|pfx|pkcs12)$", path, re.IGNORECASE) else f"{path}.p12"
                first = (
                    f"keytool -importkeystore -srckeystore {path} -destkeystore {store} -deststoretype PKCS12, then "
                )
                self.notes.differs(
                    f"{place.where}: keys are read as PEM: {'' if store == path else first}openssl pkcs12 -in {store} "
                    f"-clcerts -out {pem}; the pass phrase that it asks for is ssl.key.password"
                )
        password = self._get("ssl.key.password") or self._get("ssl.keystore.password")
        if password and (place or key):
            self._add("ssl.key.password", self._secret("ssl.key.password", password.value, password), password)

    def _is_pem(self, store: str) -> bool:
        kind = self._get(f"ssl.{store}.type")
        return kind is not None and kind.value.strip().upper() == "PEM"

    def _others(self) -> None:
        """Of the cluster and of everybody: what has no place in ``client`` is told."""
        known = {*_SAME, "security.protocol", "sasl.jaas.config", "ssl.endpoint.identification.algorithm"}
        for part in (self.config.of_cluster.get(self.cluster, {}), self.config.whole):
            for name, one in part.items():
                if name in known:
                    continue
                if name.startswith(_STORES):
                    self._store(name, one)
                elif name.startswith(_JAVA_ONLY):
                    self.notes.differs(f"{one.where}: {one.name} is of Java's clients only and is left out", of=one)
                elif name.startswith(SECURITY):
                    self.notes.differs(
                        f"{one.where}: {one.name} is not taken over: librdkafka's name or values are others. "
                        "Where it is needed, write it under client",
                        of=one,
                    )
                elif (inner := _CLIENT_PREFIX.fullmatch(name)) and inner.group(2).startswith(SECURITY):
                    self.notes.differs(
                        f"{one.where}: {one.name} is of one kind of client and is not taken over. Where it is another "
                        f"login, write it under principals of cluster {self.cluster}: plan, apply or mirror",
                        of=one,
                    )

    def _store(self, name: str, one: Property) -> None:
        """Where it became a line of ``client``, there is nothing more to tell."""
        if any(setting.origin is one for setting in self.settings):
            return
        if name.endswith(".type"):
            self.notes.drops(one, _OF_PEM)
        elif name == "ssl.truststore.password":
            self.notes.drops(one, _CERTIFICATES_ALONE)


def _bare(one: Property, cluster: str) -> str:
    return one.name.removeprefix(f"{cluster}.")


def _pem(path: str) -> str:
    return re.sub(r"\.(jks|p12|pfx|pkcs12|keystore|truststore)$", "", path, flags=re.IGNORECASE) + ".pem"


def providers(config: Configuration) -> Mapping[str, str]:
    """Classes of config providers by name."""
    found = {}
    for name, one in config.whole.items():
        if (match := re.fullmatch(r"config\.providers\.([^.]+)\.class", name)) is not None:
            found[match.group(1)] = one.value.strip()
    return found


def servers(one: Property) -> Iterator[str]:
    """``host:port`` each; Kafka's own addresses may have a protocol in front."""
    for word in one.value.split(","):
        if word.strip():
            yield word.strip().rpartition("://")[2]

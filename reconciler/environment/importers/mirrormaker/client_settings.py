"""MirrorMaker 2's client properties of a cluster as librdkafka settings. No secret is ever carried over.

Names on the left are those of Kafka's SslConfigs and SaslConfigs. What single clients have: ``single_clients``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.environment.importers.mirrormaker import token_logins
from reconciler.environment.importers.mirrormaker.properties_file import Configuration, Notes, Property, alike
from reconciler.kafka.client.auth.supported_settings import BY_PASSWORD

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
_CREDENTIALS = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
}
"""Since Kafka 4.1 (KIP-1139) also apart from the login module."""
_OF_PEM = "none: certificates and keys are PEM"
_CERTIFICATES_ALONE = "none: certificates in PEM have no password"
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_REFERENCE = re.compile(r"\$\{([^:${}]+):([^${}]*)\}")
_SECRET = re.compile(r"\$\{strimzisecrets:(?:[^/:${}]*/)?([^:${}]+):([^${}]*)\}")
CLIENT_PREFIX = re.compile(r"(consumer|producer|admin)\.(.+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of ``client``. ``origin``: None if it comes from no line of the file."""

    name: str
    value: str
    origin: Property | None


@dataclass(slots=True)
class Client:
    """Takes one cluster's settings together."""

    cluster: str
    config: Configuration
    notes: Notes
    settings: list[Setting] = field(default_factory=list)

    def read(self) -> tuple[Setting, ...]:
        protocol = "PLAINTEXT"
        if prop := self._get("security.protocol"):
            protocol = prop.value.strip().upper()
            self._add("security.protocol", protocol, prop)
        for name in _SAME:
            if (prop := self._get(name)) and not self._in_vain(name, prop, protocol):
                text = prop.value.strip()
                self._add(name, "OAUTHBEARER" if text == token_logins.IAM_MECHANISM else self._plain(prop, text), prop)
        name = "ssl.endpoint.identification.algorithm"
        if prop := self._get(name):  # Java takes an empty text for no check of names
            self._add(name, prop.value.strip().lower() or "none", prop)
        if (prop := self._get("sasl.jaas.config")) and not self._in_vain("sasl.jaas.config", prop, protocol):
            before = len(self.notes.mistakes)
            self._login(prop)
            if len(self.notes.mistakes) > before:  # what is left of a refused login is no login, which says nothing
                parts = (self.config.whole, self.config.of_cluster.get(self.cluster, {}))
                self.notes.refused |= {
                    each for part in parts for name, each in part.items() if name.startswith("sasl.")
                }
        elif prop is None and protocol.startswith("SASL"):
            # Java then has the login from a file that a system property names.
            self._add_login("of KafkaClient in the file of java.security.auth.login.config", None)
        self._files()
        self._others()
        return tuple(self.settings)

    def _in_vain(self, name: str, prop: Property, protocol: str) -> bool:
        """Java clients read no setting of SASL without SASL; a login that is not used would be refused."""
        if not name.startswith("sasl.") or protocol.startswith("SASL"):
            return False
        self.notes.leaves_out(prop, f"has no effect: security.protocol is {protocol}, which has no login")
        return True

    def _get(self, name: str) -> Property | None:
        return self.config.of_client(self.cluster, name)

    def _add(self, name: str, value: str, origin: Property | None) -> None:
        self.settings.append(Setting(name, value, origin))

    def _plain(self, prop: Property, text: str) -> str:
        """A value that is no secret; a reference becomes one of ours."""
        return self._reference(prop.name.removeprefix(f"{self.cluster}."), prop, text) or text

    def _secret(self, setting: str, text: str, prop: Property) -> str:
        """A reference in place of a secret, with a note that describes its content but never shows it."""
        return self._reference(setting, prop, text) or self._variable(setting, f"as in {prop.name} at {prop.where}")

    def _reference(self, setting: str, prop: Property, text: str) -> str | None:
        """``${env:X}`` and a file of ``${directory:}`` are known here too; others are a variable to be set."""
        if "${" not in text:
            return None
        match = _REFERENCE.fullmatch(text)
        if match:
            provider, inside = match.groups()
            by_class = self.config.whole.get(f"config.providers.{provider}.class")
            kind = (by_class.value.strip() if by_class else provider).rsplit(".", 1)[-1]
            if kind in ("EnvVarConfigProvider", "env") and re.fullmatch(r":?[A-Za-z_]\w*", inside, re.ASCII):
                name = inside.lstrip(":")
                self.notes.secrets.setdefault(name, f"as for MirrorMaker 2, {prop.where}")
                return f"${{env:{name}}}"
            path, _, key = inside.rpartition(":")
            if kind in ("DirectoryConfigProvider", "directory") and path and key:
                return f"${{file:{path.rstrip('/')}/{key}}}"
        if secrets := _SECRET.findall(text):
            named = " and ".join(f"{key} of the Secret {name}" for name, key in secrets)
            return self._variable(setting, f"{named}, {prop.where}")
        return self._variable(setting, f"what the config provider gives for {prop.name} at {prop.where}")

    def _variable(self, setting: str, words: str) -> str:
        """A unique variable name for a secret, from cluster and setting."""
        stem = name = re.sub(r"\W", "_", f"{self.cluster}_{setting}", flags=re.ASCII).upper()
        if name[0].isdigit():
            stem = name = f"KAFKA_{name}"
        number = 2
        owner = (self.cluster, setting)
        while self.notes.owners.setdefault(name, owner) != owner:
            name, number = f"{stem}_{number}", number + 1
        self.notes.secrets.setdefault(name, words)
        return f"${{env:{name}}}"

    def _add_login(self, where: str, origin: Property | None) -> None:
        """Adds references to variables for missing parts of a login."""
        mechanism = self._get("sasl.mechanism")
        kinds = {"sasl.username": "user", "sasl.password": "password"}
        if mechanism is None or mechanism.value.strip() == "GSSAPI":
            self._add_gssapi(origin)
            kinds = {"sasl.kerberos.keytab": "keyTab", "sasl.kerberos.principal": "principal"}
        elif mechanism.value.strip() == token_logins.IAM_MECHANISM:
            self._tokens(mechanism, token_logins.IAM_MODULE, {})
            return
        elif mechanism.value.strip() == "OAUTHBEARER" and origin is not None:
            self._add(f"{token_logins.OF}method", "oidc", origin)
            kinds = {f"{token_logins.OF}client.id": "clientId", f"{token_logins.OF}client.secret": "clientSecret"}
        elif mechanism.value.strip() not in BY_PASSWORD and origin is None:
            return
        for setting, kind in kinds.items():
            self._add(setting, self._variable(setting, f"the {kind} {where}"), origin)

    def _add_gssapi(self, origin: Property | None) -> None:
        """Java's default, which files leave out."""
        if self._get("sasl.mechanism") is None:
            self._add("sasl.mechanism", "GSSAPI", origin)

    def _kerberos(self, prop: Property, options: Mapping[str, str]) -> None:
        """Kerberos settings from the login modules of OpenJDK and IBM; IBM's useKeytab is a URL."""
        self._add_gssapi(prop)
        keytab = options.get("keyTab", options.get("useKeytab", "")).removeprefix("file://")
        if keytab:
            path = re.sub(r"\$\{file:(.+)\}", r"\1", self._plain(prop, keytab))
            if not path.startswith(("/", "$")):  # relative to a folder of that program's
                path = self._variable("sasl.kerberos.keytab", f"the absolute path of {keytab}, {prop.where}")
            self._add("sasl.kerberos.keytab", path, prop)
        elif options.get("useKeyTab", "").lower() == "true":
            self.notes.mistake(prop, "useKeyTab is true, and no keyTab is named. Name the file, and import again.")
        else:
            cache = f"KRB5CCNAME={options['ticketCache']}" if "ticketCache" in options else "KRB5CCNAME"
            self.notes.differs(f"{prop.where}: tickets come from the ticket cache of the process: {cache}", of=prop)
        if "principal" in options:
            self._add("sasl.kerberos.principal", self._plain(prop, options["principal"]), prop)
        if "serviceName" in options and not self._get("sasl.kerberos.service.name"):
            self._add("sasl.kerberos.service.name", options["serviceName"], prop)

    def _login(self, prop: Property) -> None:
        """JAAS: ``module flag option=value ...;``."""
        text = prop.value.strip()
        if "${" in text and _REFERENCE.fullmatch(text):
            self._add_login(f"in {prop.name} at {prop.where}", prop)
            return
        module = text.split()[0].rsplit(".", 1)[-1] if text.split() else ""
        options = {
            match.group(1): re.sub(r"\\(.)", r"\1", next(part for part in match.groups()[1:] if part is not None))
            for match in _OPTION.finditer(text)
        }
        match module:
            case "PlainLoginModule" | "ScramLoginModule":
                self._pairs(prop, options, (("username", "sasl.username"), ("password", "sasl.password")))
            case "OAuthBearerLoginModule" | "IAMLoginModule":
                self._tokens(prop, module, options)
            case "Krb5LoginModule":
                self._kerberos(prop, options)
            case _:
                self.notes.mistake(
                    prop,
                    "the login module is none of PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, "
                    "IAMLoginModule and Krb5LoginModule. Nothing like it can log in here. "
                    "Give the mirror a SCRAM or TLS identity and import again.",
                )

    def _tokens(self, prop: Property, module: str, options: dict[str, str]) -> None:
        """OAUTHBEARER, and MSK's own mechanism."""
        # Java's login is spread over three places: options of the module, a callback handler, and properties of the
        # cluster or of all (KIP-768, KIP-1139). Only together they say which token it is.
        handler = self._get("sasl.login.callback.handler.class")
        parts = (self.config.whole, self.config.of_cluster.get(self.cluster, {}))
        own = {name: each for part in parts for name, each in part.items() if name.startswith(token_logins.OF)}
        if module == token_logins.OAUTH_MODULE:
            for option, name in _CREDENTIALS.items():
                if option not in options and name in own:
                    options[option] = own[name].value.strip()
        asked = self._get("bootstrap.servers")
        made = token_logins.token_login(
            token_logins.JavaLogin(
                module,
                handler.value.strip() if handler and module == token_logins.OAUTH_MODULE else "",
                options,
                {name: each.value.strip() for name, each in own.items()},
                tuple(servers(asked)) if asked else (),
            )
        )
        of_client = self._get("sasl.client.callback.handler.class")  # of IAM's mechanism, or the same class again
        if of_client and module != token_logins.IAM_MODULE and not (handler and alike(of_client, handler)):
            of_client = None
        used = {own[name] for name in (*made.settings, *made.read, *_CREDENTIALS.values()) if name in own}
        self.notes.settled |= {each for each in (handler, of_client, *used) if each is not None}
        if made.refusal:
            self.notes.settled.add(prop)
            self.notes.mistake(handler if handler and handler.value.strip() in made.refusal else prop, made.refusal)
            return
        for option in made.missing:
            self.notes.mistake(prop, f"the login module has no {option}. No client could log in. Correct the line.")
        for words in made.remarks:
            self.notes.differs(f"{prop.where}: {words}", of=prop)
        if self._get("sasl.mechanism") is None:
            self._add("sasl.mechanism", "OAUTHBEARER", prop)
        for setting, text in made.settings.items():
            origin = own.get(setting, prop)
            if setting == "https.ca.location":
                pem = text if "${" in text or re.search(r"\.(pem|crt|cer)$", text) else _pem(text)
                self._add("https.ca.location", self._plain(prop, pem), prop)
                if pem != text:
                    self.notes.differs(
                        f"{prop.where}: certificates of the token endpoint are read as PEM: "
                        f"keytool -list -rfc -keystore {text} > {pem}, on each machine that runs a command or a job"
                    )
            elif setting in token_logins.SECRETS:
                self._add(setting, self._secret(setting, text, origin), origin)
            elif setting not in _SAME or setting not in own:
                self._add(setting, self._reference(setting, origin, text) or text, origin)

    def _pairs(self, prop: Property, options: Mapping[str, str], pairs: tuple[tuple[str, str], ...]) -> None:
        """Options of a login module as settings; passwords become references to variables."""
        if options.get("tokenauth", "").lower() == "true":
            self.notes.mistake(
                prop,
                "tokenauth is true: its user and password are a delegation token, which ends, and which brokers take "
                "from no other client for a password. Give the mirror a SCRAM or TLS identity and import again.",
            )
        if others := [option for option in options if option not in {"tokenauth", *dict(pairs)}]:
            words = f"{prop.where}: {', '.join(others)} of the login module has no counterpart and is left out"
            self.notes.differs(words, of=prop)
        for option, setting in pairs:
            if option not in options:
                self.notes.mistake(prop, f"the login module has no {option}. No client could log in. Correct the line.")
            elif setting.endswith("password"):
                self._add(setting, self._secret(setting, options[option], prop), prop)
            else:
                self._add(setting, self._reference(setting, prop, options[option]) or options[option], prop)

    def _files(self) -> None:
        """Stores of Java are certificates and keys as PEM here."""
        place, certificates = self._get("ssl.truststore.location"), self._get("ssl.truststore.certificates")
        keys, chain = self._get("ssl.keystore.location"), self._get("ssl.keystore.certificate.chain")
        if certificates:
            self._add("ssl.ca.pem", self._plain(certificates, certificates.value), certificates)
        elif place and "${" in place.value:
            self._add("ssl.ca.location", self._plain(place, place.value.strip()), place)
        elif place:
            path = place.value.strip()
            pem = path if self._is_pem("truststore") else _pem(path)
            if pem != path and keys and _pem(keys.value.strip()) == pem:
                pem = pem.removesuffix(".pem") + "-ca.pem"  # one store with both keys and certificates, now two files
            self._add("ssl.ca.location", pem, place)
            if pem != path:
                self.notes.differs(
                    f"{place.where}: certificates are read as PEM: keytool -list -rfc -keystore {path} > {pem}, "
                    "on each machine that runs a command or a job"
                )

        # A key in the properties themselves (KIP-651) is a secret; a chain of certificates is none.
        key = self._get("ssl.keystore.key")
        if chain:
            self._add("ssl.certificate.pem", self._plain(chain, chain.value), chain)
        if key:
            self._add("ssl.key.pem", self._secret("ssl.keystore.key", key.value.strip(), key), key)
        if keys:
            path = keys.value.strip()
            pem = path if self._is_pem("keystore") or "${" in path else _pem(path)
            for name in ("ssl.certificate.location", "ssl.key.location"):
                self._add(name, self._plain(keys, pem), keys)
            if pem != path:
                store = path if re.search(r"\.(p12|pfx|pkcs12)$", path, re.IGNORECASE) else f"{path}.p12"
                first = (
                    f"keytool -importkeystore -srckeystore {path} -destkeystore {store} -deststoretype PKCS12, then "
                )
                self.notes.differs(
                    f"{keys.where}: keys are read as PEM: {'' if store == path else first}openssl pkcs12 -in {store} "
                    f"-clcerts -out {pem}; the pass phrase that it asks for is ssl.key.password"
                )
        password = self._get("ssl.key.password") or self._get("ssl.keystore.password")
        if password and (keys or key):
            self._add("ssl.key.password", self._secret("ssl.key.password", password.value, password), password)

    def _is_pem(self, store: str) -> bool:
        kind = self._get(f"ssl.{store}.type")
        return kind is not None and kind.value.strip().upper() == "PEM"

    def _others(self) -> None:
        """Notes on properties of the cluster and at top level that have no place in ``client``."""
        known = {*_SAME, "security.protocol", "sasl.jaas.config", "ssl.endpoint.identification.algorithm"}
        for part in (self.config.of_cluster.get(self.cluster, {}), self.config.whole):
            for name, prop in part.items():
                if name in known or prop in self.notes.settled:
                    continue
                if name.startswith(_STORES):
                    if any(setting.origin is prop for setting in self.settings):
                        continue  # it became a line of ``client``
                    if name.endswith(".type"):
                        self.notes.drops(prop, _OF_PEM)
                    elif name == "ssl.truststore.password":
                        self.notes.drops(prop, _CERTIFICATES_ALONE)
                elif name.startswith(_JAVA_ONLY):
                    self.notes.leaves_out(prop, "is of Java's clients only and is left out")
                elif name.startswith(SECURITY):
                    words = "is not taken over: librdkafka's name or values are others. Where it is needed, write it"
                    self.notes.leaves_out(prop, f"{words} under client")
                elif (inner := CLIENT_PREFIX.fullmatch(name)) and inner.group(2).startswith(SECURITY):
                    words = "is of one kind of client and is not taken over. Where it is another login, write it under"
                    self.notes.leaves_out(prop, f"{words} principals of cluster {self.cluster}: plan, apply or mirror")


def _pem(path: str) -> str:
    return re.sub(r"\.(jks|p12|pfx|pkcs12|keystore|truststore)$", "", path, flags=re.IGNORECASE) + ".pem"


def servers(prop: Property) -> Iterator[str]:
    """``host:port`` each; Kafka's own addresses may have a protocol in front."""
    for word in prop.value.split(","):
        if word.strip():
            yield word.strip().rpartition("://")[2]

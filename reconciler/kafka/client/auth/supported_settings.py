"""Allowed settings of librdkafka, those that our own connections support, and replacements of the others.

Pure functions, so an environment can be checked before any connection. Names and meaning: librdkafka 2.16,
CONFIGURATION.md. Settings are allowed by a list, because an edit of an environment must not run code, and some settings
load libraries or call a shell. A security setting is honoured or refused, never ignored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from reconciler.kafka.address import url_address

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
BY_PASSWORD = MECHANISMS[:3]
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
DECIDES = ("ssl.", "ssl_", "sasl.", "security.", "https.", "enable.ssl", "enable.sasl", "oauthbearer_")
"""Prefixes of settings that decide which credentials a client sends, and to which server."""
HONOURED = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config",
        "sasl.oauthbearer.audience", "sasl.oauthbearer.client.authentication", "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.nbf.seconds", "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.aws.region", "sasl.oauthbearer.aws.role_arn", "sasl.oauthbearer.aws.role_session_name",
        "sasl.oauthbearer.aws.role_external_id", "sasl.oauthbearer.aws.profile", "sasl.oauthbearer.azure.tenant_id",
        "sasl.oauthbearer.azure.certificate.location", "sasl.oauthbearer.gcp.credentials.location",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab",
        "https.ca.location", "https.ca.pem", "ssl.ca.location", "ssl.ca.pem", "ssl.crl.location",
        "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
        "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification", "ssl.cipher.suites",
        "ssl.curves.list",
    }
)  # fmt: skip
HARMLESS = ("sasl.oauthbearer.sub.claim.name",)
"""Settings that matter only in librdkafka's own log."""
_LIBRDKAFKA_ONLY = ("ssl.keystore.", "ssl.sigalgs.list", "ssl.ca.certificate.stores", "sasl.oauthbearer.assertion.jwt.")
"""Beginnings. They name keys and algorithms; our own connections do not honour them."""
TUNING = frozenset(
    {
        # what brokers show of us, and which of them is asked
        "client.id", "client.rack", "client.dns.lookup", "broker.address.family", "broker.address.ttl",
        # sockets and patience
        "socket.timeout.ms", "socket.blocking.max.ms", "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
        "socket.keepalive.enable", "socket.nagle.disable", "socket.max.fails", "socket.connection.setup.timeout.ms",
        "connections.max.idle.ms", "reconnect.backoff.jitter.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
        "retry.backoff.ms", "retry.backoff.max.ms", "request.timeout.ms", "enable.sparse.connections",
        "api.version.request", "api.version.request.timeout.ms", "api.version.fallback.ms", "broker.version.fallback",
        # metadata
        "metadata.max.age.ms", "metadata.request.timeout.ms", "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms", "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.sparse",
        "topic.metadata.propagation.max.ms",
        # fetching
        "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes",
        "fetch.queue.backoff.ms", "fetch.wait.max.ms", "max.partition.fetch.bytes", "queued.max.messages.kbytes",
        "queued.min.messages", "check.crcs", "receive.message.max.bytes", "heartbeat.interval.ms",
        "session.timeout.ms", "max.poll.interval.ms",
        # producing
        "acks", "request.required.acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level",
        "compression.type", "delivery.timeout.ms", "linger.ms", "max.in.flight",
        "max.in.flight.requests.per.connection", "message.copy.max.bytes", "message.max.bytes",
        "message.send.max.retries", "message.timeout.ms", "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms", "retries",
        "sticky.partitioning.linger.ms", "transaction.timeout.ms", "allow.auto.create.topics",
        # what librdkafka reports about itself, to a log that holds no secret
        "debug", "log_level", "log.connection.close", "statistics.interval.ms", "enable.metrics.push",
    }
)  # fmt: skip
"""Settings for a client's performance and timeouts. They affect neither its peer nor code or files that it uses."""
TOKEN_METHODS = ("oidc", "aws_msk_iam", "aws_sts", "azure", "gcp")
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a name
FILES = ("ssl.ca.location", "https.ca.location", "ssl.crl.location", "ssl.certificate.location", "ssl.key.location",
         "ssl.keystore.location", "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.jwt.template.file",
         "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.azure.certificate.location",
         "sasl.oauthbearer.gcp.credentials.location", "sasl.kerberos.keytab")  # fmt: skip
"""Settings whose value is a path."""

_OWN = "The mirror and all commands use our own connections"
_JAVA = "It is a setting of the Java clients"
_BY_METHOD = "remove it: sasl.oauthbearer.method says who gives the token (oidc, aws_msk_iam, aws_sts, azure, gcp)"
_KEYTAB = "sasl.kerberos.keytab"
_RELATIVE_KEYTAB = (
    "Write its absolute path. Where Spark brings it to executors (spark.files), write ${env:NAME}: the path in the "
    "driver's environment, the bare name as spark.executorEnv.NAME"
)
_CONFIGURATION = "remove it, and set {} in the OpenSSL configuration (OPENSSL_CONF) of the machines that run the mirror"
_PKCS12 = (
    "convert the keystore once, openssl pkcs12 -in client.p12 -clcerts -out client.pem, and name client.pem as "
    "ssl.certificate.location, with its passphrase as ssl.key.password"
)
_INSTEAD: Mapping[str, tuple[str, str]] = {
    "ssl.keystore.": (f"{_OWN}, which read certificates as PEM and not as PKCS#12", _PKCS12),
    "ssl.sigalgs.list": (f"{_OWN}, which cannot set it", _CONFIGURATION.format("SignatureAlgorithms")),
    "ssl.providers": ("It loads code into this program", _CONFIGURATION.format("the providers")),
    "ssl.engine.": ("It loads code into this program", "name the key as a file, ssl.key.location"),
    "plugin.library.paths": ("It loads code into this program", "remove it"),
    "interceptor": ("It loads code into this program", "remove it"),
    "sasl.kerberos.": (
        "No kinit is run here, and a ticket is for the broker's own name",
        "remove it: tickets of a sasl.kerberos.keytab are renewed by themselves",
    ),
    "sasl.login.": (_JAVA, _BY_METHOD),
    "sasl.client.callback.handler.class": (_JAVA, _BY_METHOD),
    "offset.store.": ("It writes files, and the mirror keeps its own positions", "remove it"),
    "ssl.ca.certificate.stores": ("It is for Windows only", "name the certificates as a file, ssl.ca.location"),
    "sasl.oauthbearer.assertion.jwt.": (
        f"{_OWN}, which take no template",
        "write its claims as sasl.oauthbearer.assertion.claim.*, and its alg as sasl.oauthbearer.assertion.algorithm",
    ),
    "ssl.truststore.": (
        _JAVA,
        "write the certificates as PEM, keytool -exportcert -rfc -keystore FILE, and name that file as ssl.ca.location",
    ),
    "sasl.jaas.config": (
        _JAVA,
        "write its options as sasl.username and sasl.password, sasl.oauthbearer.* or sasl.kerberos.*",
    ),
}
_OTHER_CLIENTS = re.compile(
    r"(spring\.)?(cloud\.stream\.)?(kafka\.)?((binder\.)?configuration\.|properties\.|(admin|consumer|producer)\.)*"
)
"""What Spring and MirrorMaker write in front of a client's setting."""
_OTHER_NAMES: Mapping[str, str] = {
    "sasl.plain.username": "sasl.username", "sasl.plain.password": "sasl.password", "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location", "ssl.keyfile": "ssl.key.location", "ssl.password": "ssl.key.password",
    "ssl.crlfile": "ssl.crl.location", "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "ssl.ciphers": "ssl.cipher.suites",
}  # fmt: skip
"""Names of kafka-python, with dots."""
_WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "security.protocol": (PROTOCOLS, ""),
    "sasl.mechanism": (tuple(map(str.lower, MECHANISMS)), ""),
    "sasl.mechanisms": (tuple(map(str.lower, MECHANISMS)), ""),
    "sasl.oauthbearer.method": ((*TOKEN_METHODS, "default"), ""),
    "sasl.oauthbearer.grant.type": (("client_credentials", JWT_BEARER), ""),
    "sasl.oauthbearer.client.authentication": (("client_secret_basic", "client_secret_post", "private_key_jwt"), ""),
    "sasl.oauthbearer.assertion.algorithm": (("rs256", "es256"), ""),
    "sasl.oauthbearer.assertion.claim.jti.include": (("true", "false"), ""),
    "sasl.oauthbearer.metadata.authentication.type": (
        ("none",),
        "A cloud's identity is a method here: sasl.oauthbearer.method azure for azure_imds, aws_sts for aws_iam",
    ),
    "ssl.endpoint.identification.algorithm": (("https", "none"), ""),
    "enable.ssl.certificate.verification": (("true", "false"), ""),
    "enable.sasl.oauthbearer.unsecure.jwt": (("true", "false"), ""),
    "broker.address.family": (("any", "v4", "v6"), ""),
}
"""Settings with few allowed values, in lower case, with the reason where it is not obvious."""
_MSK_IAM = "It is a mechanism of Java clients; MSK takes OAUTHBEARER with sasl.oauthbearer.method aws_msk_iam, too"
_WHY_NOT: Mapping[tuple[str, str], str] = {
    ("sasl.mechanism", "aws_msk_iam"): _MSK_IAM,
    ("sasl.mechanisms", "aws_msk_iam"): _MSK_IAM,
    ("ssl.endpoint.identification.algorithm", ""): "A blank turns the check of host names off in Java clients only",
}
"""Why a common value is not in ``_WORDS``."""
_OF_EVERY_CLIENT = ("security.protocol", "sasl.mechanism", "sasl.mechanisms", "ssl.endpoint.identification.algorithm")


_LISTED = HONOURED | TUNING | {*HARMLESS, "bootstrap.servers"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """``setting`` is the one to edit. The texts are sentences without a full stop; none holds a secret."""

    setting: str
    what: str
    why: str
    todo: str

    def __str__(self) -> str:
        return f"{self.what}. {self.why}. {self.todo}"


def refusals(client: Mapping[str, str | None]) -> tuple[Refusal, ...]:
    """Why a client that our own connections serve, too, cannot use its settings. ``client``: librdkafka settings; None
    for a value that is not known yet (a secret)."""
    unsupported = (_refusal(setting) for setting in sorted(client) if setting.startswith(_LIBRDKAFKA_ONLY))
    return (*forbidden(client), *unsupported, *_values(client), *_together(client))


def useless(client: Mapping[str, str | None]) -> tuple[Refusal, ...]:
    """What no client can log in with, librdkafka included, as far as that is known before a connection."""
    return (
        *(refusal for refusal in _values(client) if refusal.setting in _OF_EVERY_CLIENT),
        *_together(client),
        *_login(client),
    )


def forbidden(client: Iterable[str]) -> tuple[Refusal, ...]:
    """Refusals of settings that are not in the list."""
    unlisted = (setting for setting in sorted(client) if setting not in _LISTED)
    return tuple(_refusal(setting) for setting in unlisted if not setting.startswith(_LIBRDKAFKA_ONLY))


def by_kerberos(client: Mapping[str, str]) -> bool:
    return client.get("sasl.mechanisms", client.get("sasl.mechanism", "")).upper() == "GSSAPI"


def not_by_librdkafka(client: Mapping[str, str]) -> str:
    """Why librdkafka must not get these settings, or empty. It renews Kerberos tickets by ``kinit`` in a shell, even
    without a keytab."""
    if not by_kerberos(client):
        return ""
    return "sasl.mechanism is GSSAPI: our own connections speak Kerberos, and librdkafka gets none of it"


def _refusal(setting: str) -> Refusal:
    """Words for a setting that no list has: why it is not simply ignored, and a near name if it looks like a slip."""
    default = (
        f"{_OWN}, which do not know it; ignoring it could weaken or break security"
        if setting.startswith(DECIDES)
        else "Only settings that are known to run no code and to read no file are handed to a client"
    )
    plain = _OTHER_CLIENTS.sub("", setting, count=1).replace("_", ".")
    near = get_close_matches(_OTHER_NAMES.get(plain, plain), sorted(_LISTED), 1, 0.85)
    guess = f"perhaps you mean {near[0]}; else remove it" if near else "remove it"
    why, todo = next((words for name, words in _INSTEAD.items() if setting.startswith(name)), (default, guess))
    return Refusal(setting, f"the setting {setting} is not supported", why, todo[0].upper() + todo[1:])


def _values(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """Values that this program's own client cannot take, though librdkafka may."""
    for setting, (words, why) in _WORDS.items():
        value = client.get(setting)
        if setting == "sasl.oauthbearer.method" and ":" in (value or ""):
            continue  # module:function of others, which RECONCILER_ALLOW or an entry point has to name
        if value is not None and value.lower() not in words:
            shown = [word.upper() if setting.startswith("sasl.mechanism") else word for word in words if word]
            todo = f"Use {_any_of(shown)}"
            why = _WHY_NOT.get((setting, value.lower()), why) or "Nothing else has a meaning here"
            yield Refusal(setting, f'{setting} is "{value}"', why, todo)
    if endpoint := client.get(TOKEN_ENDPOINT):
        try:
            url_address(endpoint)
        except ValueError as error:
            why = "The client secret is sent there, and other programs could read another host in it"
            yield Refusal(TOKEN_ENDPOINT, f"{TOKEN_ENDPOINT}: {error}", why, "Write https://host:port/path")
    yield from _of_methods(client)
    curves = client.get("ssl.curves.list")
    if curves and len([name for name in curves.replace(",", ":").split(":") if name]) > 1:
        problem, why = f'ssl.curves.list is "{curves}"', f"{_OWN}, which can be held to one curve and not to a list"
        yield Refusal("ssl.curves.list", problem, why, "Name one curve, or remove it")


def _of_methods(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """Values that a method of tokens cannot use, and settings of another method."""
    method = (client.get("sasl.oauthbearer.method") or "").lower()
    for setting, pattern, example in _SHAPES:
        value = client.get(setting)
        if value is not None and not pattern.fullmatch(value):
            yield Refusal(setting, f'{setting} is "{value}"', "No login is possible", f"Write {example}")
    scope = client.get("sasl.oauthbearer.scope")
    if method == "azure" and scope is not None and not scope.endswith("/.default"):
        problem = f'sasl.oauthbearer.scope is "{scope}"'
        todo = f"Write {scope.rstrip('/')}/.default"
        yield Refusal("sasl.oauthbearer.scope", problem, "Entra ID takes RESOURCE/.default of programs", todo)
    for setting in sorted(client):
        owner = setting.removeprefix("sasl.oauthbearer.").partition(".")[0]
        if not setting.startswith("sasl.oauthbearer.") or owner not in ("aws", "azure", "gcp"):
            continue
        if method and method != owner and not method.startswith(f"{owner}_") and ":" not in method:
            fitting = [name for name in TOKEN_METHODS if name.startswith(owner)]
            problem = f'{setting} is set, and sasl.oauthbearer.method is "{method}"'
            todo = f"Set sasl.oauthbearer.method to {_any_of(fitting)}, or remove {setting}"
            yield Refusal(setting, problem, "The method does not use it", todo)


_SHAPES = (
    ("sasl.oauthbearer.aws.region", re.compile("[a-z]{2}(-[a-z]+)+-[0-9]"), "a region, such as eu-west-1"),
    (
        "sasl.oauthbearer.aws.role_arn",
        re.compile("arn:aws[a-z-]*:iam::[0-9]{12}:role/.+"),
        "arn:aws:iam::ACCOUNT:role/NAME",
    ),
    ("sasl.kerberos.service.name", re.compile("[^/@ ]+"), "what the brokers' principals begin with, such as kafka"),
    (
        "sasl.kerberos.principal",
        re.compile(r"(?!.*_HOST)([^@\\]|\\.)+(@[^@]+)?"),
        "a principal as the keytab has it, or none, for the first of each machine's keytab; _HOST is not replaced",
    ),
    (
        "sasl.oauthbearer.extensions",  # KIP-342
        re.compile(r"(?!(.*,)?\s*auth=)\s*[A-Za-z]+=[^,]+(,\s*[A-Za-z]+=[^,]+)*"),
        "NAME=VALUE,NAME=VALUE, names of letters, none of them auth",
    ),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", re.compile("[0-9]{1,6}"), "whole seconds"),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", re.compile("[0-9]{1,6}"), "whole seconds"),
)


def _together(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """Problems of combined settings."""
    protocol = (client.get("security.protocol", "plaintext") or "").lower()
    if protocol not in PROTOCOLS or not protocol.startswith("sasl"):
        return
    named = [client[name] for name in ("sasl.mechanisms", "sasl.mechanism") if name in client]
    if not named:
        why = "Clients of Java take GSSAPI (Kerberos) then; here a login is chosen in words"
        problem = f"security.protocol is {protocol} and sasl.mechanism is missing"
        yield Refusal("security.protocol", problem, why, f"Set sasl.mechanism to {_any_of(MECHANISMS)}")
        return
    if named[0] is None or named[0].upper() != "OAUTHBEARER":
        return
    method = client.get("sasl.oauthbearer.method", "default")
    unsecured = client.get("enable.sasl.oauthbearer.unsecure.jwt", "false")
    if method is not None and method.lower() == "default" and unsecured is not None and unsecured.lower() == "false":
        setting = "sasl.mechanisms" if "sasl.mechanisms" in client else "sasl.mechanism"
        problem = f"{setting} is OAUTHBEARER and sasl.oauthbearer.method is not set"
        todo = f"Set sasl.oauthbearer.method to {_any_of(TOKEN_METHODS)}"
        yield Refusal(setting, problem, "Nothing says where a token comes from", todo)


def _login(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """Missing credentials, and credentials that no mechanism uses."""
    protocol = client.get("security.protocol", "plaintext")
    given = [name for name in ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms") if name in client]
    if protocol is not None and protocol.lower() in PROTOCOLS and not protocol.lower().startswith("sasl"):
        if given:
            problem = f"{given[0]} is set, and security.protocol is {protocol}"
            why = "Without SASL there is no login: brokers see an anonymous client"
            with_login = (
                "SASL_SSL" if protocol.lower() == "ssl" else "SASL_SSL, or SASL_PLAINTEXT where there is no TLS"
            )
            yield Refusal(given[0], problem, why, f"Set security.protocol to {with_login}, or remove {given[0]}")
        return
    # librdkafka has two names for the mechanism, too; the message names the one that is written.
    setting = next((name for name in ("sasl.mechanisms", "sasl.mechanism") if name in client), "")
    mechanism = (client.get(setting) or "").upper()
    keytab = client.get(_KEYTAB)
    if mechanism == "GSSAPI" and keytab and not keytab.startswith("/"):
        why = "Each process starts in a folder of its own"
        yield Refusal(_KEYTAB, f'{_KEYTAB} is "{keytab}"', why, _RELATIVE_KEYTAB)
    needed = ["sasl.username", "sasl.password"] if mechanism in BY_PASSWORD else []
    if mechanism == "OAUTHBEARER":
        needed = [f"sasl.oauthbearer.{name}" for name in _needed(client)]
    # librdkafka has two names for identity and secret of a client.
    by_other_name = {
        name: name.replace("oauthbearer.client.", "oauthbearer.client.credentials.client.") for name in needed
    }
    lacking = [name for name in needed if name not in client and by_other_name[name] not in client]
    if lacking:
        todo = f"Add {_all_of(lacking)}; secrets are written as ${{env:NAME}} or ${{file:PATH}}"
        yield Refusal(setting, f"{setting} is {mechanism} without {_all_of(lacking)}", "No login is possible", todo)


def _needed(client: Mapping[str, str | None]) -> tuple[str, ...]:
    """Required settings, without the prefix sasl.oauthbearer, and without those that a cloud's variables may supply."""
    method = (client.get("sasl.oauthbearer.method", "default") or "").lower()
    key = next(
        (f"assertion.{name}" for name in ("file", "private.key.pem") if f"sasl.oauthbearer.assertion.{name}" in client),
        "assertion.private.key.file",
    )
    match method, client.get("sasl.oauthbearer.grant.type"), client.get("sasl.oauthbearer.client.authentication"):
        case "oidc", str() as grant, _ if grant.lower() == JWT_BEARER:
            return ("token.endpoint.url", key)
        case "oidc", _, str() as by if by.lower() == "private_key_jwt":
            return ("token.endpoint.url", "client.id", key)
        case "oidc", _, _:
            return ("token.endpoint.url", "client.id", "client.secret")
        case "azure", _, _:
            return ("scope",)
        case "aws_sts", _, _:
            return ("audience",)
    return ()


def _any_of(words: tuple[str, ...] | list[str], last: str = "or") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _all_of(words: list[str]) -> str:
    return _any_of(words, "and")

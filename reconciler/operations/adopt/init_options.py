"""What ``init`` has to know, as options of the command line give it, and what of it is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.environment.adopt.first_environment import FirstFlow
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.operations.adopt.arguments import (
    bootstrap_servers,
    certificate,
    client_value,
    expressions_of,
    require_alias,
)
from reconciler.replication.expressions.match import NO_EXPRESSIONS, Expressions

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NO_FLOW = "none"
_FLOW = re.compile(r"([^:=]+):([^:=]+)=(.+)")


@dataclass(frozen=True, slots=True)
class InitOptions:
    """As they were given; empty where they were not. ``client``: ``[CLUSTER:]KEY=VALUE`` each; ``principals``:
    ``[CLUSTER:]WHO:KEY=VALUE`` each; ``sync_offsets``: yes or no."""

    folder: Path
    clusters: tuple[str, ...] = ()
    protocol: str = ""
    client: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()
    naming: str = ""
    exclude: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()
    sync_offsets: str = ""
    metrics_port: int | None = None
    users: bool = False


@dataclass(frozen=True, slots=True)
class InitRequest:
    folder: Path
    clusters: tuple[Cluster, ...]
    flows: tuple[FirstFlow, ...]
    exclude: Expressions = NO_EXPRESSIONS
    metrics_port: int = 0
    users: bool = False


@dataclass(frozen=True, slots=True)
class LoginSetting:
    key: str
    question: str
    default: str = ""
    secret: bool = False


def init_request(options: InitOptions) -> InitRequest:
    """Raises ReconcilerError for what cannot be meant, and with all options that are missing."""
    clusters = tuple(map(address_of, options.clusters))
    if options.protocol and options.protocol.upper() not in PROTOCOLS:
        raise no_choice("--security-protocol", options.protocol, PROTOCOLS)
    settings = client_by_cluster(options, [name for name, _ in clusters])
    if missing := list(_missing(options, settings)):
        raise ReconcilerError(
            f"init cannot ask, because standard input is not a terminal, and has no {', '.join(missing)}",
            "Nothing is guessed: a guess could log in to, or copy, something you did not choose.",
            f"Give {'it' if len(missing) == 1 else 'them'}; nothing was written.",
        )
    for name, of in settings.items():
        if (ca := of.get("ssl.ca.location", "")) and "${" not in ca:
            certificate(ca, f"ssl.ca.location of cluster {name}")
    principals = principals_by_cluster(options, [name for name, _ in clusters])
    kept = options.sync_offsets == "yes"
    return InitRequest(
        options.folder,
        tuple(Cluster(name, servers, client=settings[name], principals=principals[name]) for name, servers in clusters),
        tuple(
            replace(_flow(text, options.naming == "identity"), sync_offsets=kept)
            for text in options.flows
            if text != NO_FLOW
        ),
        expressions_of(options.exclude, "--exclude"),
        options.metrics_port or 0,
        options.users,
    )


def command_line(options: InitOptions) -> str:
    """The command that needs no answers."""
    words = ["reconciler", "init", str(options.folder)]
    for option, texts in (
        ("--cluster", options.clusters),
        ("--security-protocol", (options.protocol,)),
        ("--client", options.client),
        ("--flow", options.flows),
        ("--naming", (options.naming,) if options.naming else ()),
        ("--exclude", options.exclude),
        ("--principal", options.principals),
        ("--sync-offsets", (options.sync_offsets,) if options.sync_offsets else ()),
        ("--metrics-port", (str(options.metrics_port),) if options.metrics_port is not None else ()),
    ):
        words += [word for text in texts for word in (option, text)]
    return shlex.join([*words, *(["--with-users"] if options.users else [])])


CERTIFICATE = (
    LoginSetting("ssl.certificate.location", "File of the client certificate (empty: none)"),
    LoginSetting("ssl.key.location", "File of its key (empty: none)"),
    LoginSetting("ssl.key.password", "Variable that holds the key's password (empty: none)", secret=True),
)


def variables_of(names: Iterable[str]) -> Mapping[str, str]:
    """By cluster, what the names of its variables begin with. Clusters east-1 and east_1 do not share a secret, nor do
    principal apply of east and cluster east-apply."""
    begins: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Z0-9]", "_", name.upper())
        stem = begin = f"_{stem}" if stem[0].isdigit() else stem
        number = 2
        while (mine := {begin, *(f"{begin}_{who.name}" for who in Principal)}) & taken:
            begin, number = f"{stem}_{number}", number + 1
        begins[name] = begin
        taken |= mine
    return begins


def login_settings(name: str, mechanism: str, variable: str) -> tuple[LoginSetting, ...]:
    """``variable``: as ``variables_of`` returns it."""
    if mechanism == "OAUTHBEARER":
        return (
            LoginSetting("sasl.oauthbearer.method", "", "oidc"),
            LoginSetting("sasl.oauthbearer.token.endpoint.url", f"Token endpoint of {name} (URL)"),
            LoginSetting("sasl.oauthbearer.client.id", f"Client id on {name}"),
            LoginSetting(
                "sasl.oauthbearer.client.secret",
                f"Variable that holds its secret on {name}",
                f"{variable}_SECRET",
                True,
            ),
        )
    return (
        LoginSetting("sasl.username", f"User name on {name}"),
        LoginSetting("sasl.password", f"Variable that holds its password on {name}", f"{variable}_PASSWORD", True),
    )


def _missing(options: InitOptions, settings: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    if not options.clusters:
        yield "--cluster NAME=HOST:PORT"
    if not options.protocol:
        yield "--security-protocol"
    if options.protocol.upper().startswith("SASL"):
        if without := [name for name, of in settings.items() if "sasl.mechanism" not in of]:
            yield _client_option(without, settings, "sasl.mechanism", ", ".join(MECHANISMS[:1]))
        variables = variables_of(settings)
        for name, of in settings.items():
            for setting in (
                login_settings(name, of["sasl.mechanism"], variables[name]) if "sasl.mechanism" in of else ()
            ):
                if setting.key not in of:
                    example = f"${{env:{setting.default}}}" if setting.secret else setting.default or "..."
                    yield f"--client '{name}:{setting.key}={example}'"
    if not options.flows:
        yield f"--flow SOURCE:TARGET=REGEX (or --flow {NO_FLOW})"


def _client_option(without: Sequence[str], settings: Mapping[str, object], key: str, example: str) -> str:
    return f"--client {'' if len(without) == len(settings) else f'{without[0]}:'}{key}={example}"


def client_by_cluster(options: InitOptions, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """By cluster: what is given for all, under what is given for it."""
    whole: dict[str, str] = {"security.protocol": options.protocol.upper()} if options.protocol else {}
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for number, word in enumerate(options.client, start=1):
        path, sign, text = word.partition("=")
        cluster, colon, key = path.rpartition(":")
        if not sign or not key:
            why = "A setting has a name and a value."
            raise ReconcilerError(f"the --client number {number} is no setting", why, "Write [CLUSTER:]KEY=VALUE.")
        if colon and cluster not in own:
            why = "A setting is for a cluster that --cluster names, or for all of them."
            raise ReconcilerError(f"the --client number {number} is for cluster {cluster}", why, "Correct the name.")
        (own[cluster] if colon else whole)[key] = client_value(key, text)
    return {name: whole | own[name] for name in names}


def principals_by_cluster(options: InitOptions, names: Sequence[str]) -> dict[str, dict[Principal, dict[str, str]]]:
    """By cluster: settings of each principal; those for all clusters, under those for one."""
    whole: dict[Principal, dict[str, str]] = {}
    own: dict[str, dict[Principal, dict[str, str]]] = {name: {} for name in names}
    for number, word in enumerate(options.principals, start=1):
        path, sign, text = word.partition("=")
        place, _, key = path.rpartition(":")
        cluster, colon, who = place.rpartition(":")
        if not sign or not key or who not in set(Principal) or (colon and cluster not in own):
            why = f"It says how {', '.join(Principal)} log in, on one cluster or on all."
            raise ReconcilerError(
                f"the --principal number {number} is no setting of a principal", why, "Write [CLUSTER:]WHO:KEY=VALUE."
            )
        (own[cluster] if colon else whole).setdefault(Principal(who), {})[key] = client_value(key, text)
    return {name: _merged(whole, part) for name, part in own.items()}


def _merged(
    whole: Mapping[Principal, Mapping[str, str]], own: Mapping[Principal, Mapping[str, str]]
) -> dict[Principal, dict[str, str]]:
    return {who: {**whole.get(who, {}), **own.get(who, {})} for who in dict.fromkeys((*whole, *own))}


def address_of(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, servers = text.partition("=")
    require_alias(name, "the name in --cluster")
    return name, bootstrap_servers(servers, f"--cluster {name}=")


def _flow(text: str, identity: bool) -> FirstFlow:
    if not (parts := _FLOW.fullmatch(text)):
        why = "A flow has a source, a target and an expression of topic names."
        raise ReconcilerError(f"--flow is {text or 'empty'}", why, f"Write SOURCE:TARGET=REGEX, or {NO_FLOW}.")
    return FirstFlow(parts[1], parts[2], (parts[3],), identity)


def no_choice(subject: str, text: str, choices: Sequence[str]) -> ReconcilerError:
    return ReconcilerError(
        f"{subject} is {text or 'empty'}", "It is none of the choices.", f"Choose one of {', '.join(choices)}."
    )

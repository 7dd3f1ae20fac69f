"""Settings of MirrorMaker 2's single clients: those that all share are of the cluster, other connections are refused.

A single client with a connection of its own (``producer.override.bootstrap.servers``) would make the flow another one
than its clusters say. Which clients are whose: MirrorConnectorConfig; ``producer.override`` is of the producer that
writes the records.
"""

import re
from dataclasses import replace

from reconciler.environment.importers.mirrormaker.client_settings import CLIENT_PREFIX, SECURITY, servers
from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Configuration, Flow, Notes, alike

_OF_ONE_CLIENT = re.compile(
    r"((?:source|target)\.)?(cluster|producer|consumer|admin)\.(override\.)?((?:[a-z]+\.)+[a-z.]+)"
)
_DECIDES = re.compile(r"bootstrap\.servers|security\.protocol|sasl\..+")
_CONNECTS = re.compile(r"bootstrap\.servers|security\.protocol|(sasl|ssl)\..+")
_EFFECTS = {
    "producer": "where records are written",
    "consumer": "from where records are read",
    "admin": "where topics are looked for and made",
    "cluster": "where the flow reads and writes",
}
_DEFAULTS = {"security.protocol": "PLAINTEXT"}
SAME_CONNECTION = "the same connection as its cluster's"


def with_shared_logins(config: Configuration) -> Configuration:
    """Moves connection settings that all kinds of clients of a cluster share to the cluster. All kinds must have them:
    MirrorMaker 2 also uses an admin client for each cluster, which would otherwise have another connection."""
    of_cluster = {name: {**_shared(config, name), **part} for name, part in config.of_cluster.items()}
    return replace(config, of_cluster=of_cluster)


def _shared(config: Configuration, cluster: str) -> dict[str, Property]:
    """Settings that producer, consumer and admin of a cluster have alike, so that they are the cluster's here; empty as
    soon as one differs."""
    kinds: dict[str, dict[str, Property]] = {}
    for name, prop in config.of_cluster[cluster].items():
        match = CLIENT_PREFIX.fullmatch(name)
        if name.startswith(SECURITY):
            return {}
        if match and match[2].startswith(SECURITY):
            kinds.setdefault(match[1], {})[match[2]] = prop
    first = kinds.get("admin", {})
    if len(kinds) < 2 or any(name.startswith(SECURITY) for name in config.whole):
        return {}
    same = all(
        kind.keys() == first.keys() and all(_same(name, prop, first[name]) for name, prop in kind.items())
        for kind in kinds.values()
    )
    return first if same else {}


def check_cluster(cluster: str, config: Configuration, notes: Notes) -> None:
    """``B.producer.x``: refuses settings that the cluster itself lacks; another login got a note (``Client``)."""
    for name, prop in config.of_cluster[cluster].items():
        match = _OF_ONE_CLIENT.fullmatch(name)
        if match is None or match[1] or match[2] == "cluster" or not _CONNECTS.fullmatch(match[4]):
            continue
        _, kind, override, setting = match.groups()
        own = config.of_client(cluster, setting)
        if override:
            notes.leaves_out(prop, "has no effect: override is of a connector's settings, after A->B.")
        elif _same(setting, prop, own):
            notes.drops(prop, SAME_CONNECTION)
        elif setting == "bootstrap.servers" or (own is None and _DECIDES.fullmatch(setting)):
            notes.mistake(prop, _refusal(kind, setting, prop, own, cluster))


def check_flow(flow: Flow, config: Configuration, notes: Notes) -> None:
    """``A->B.producer.override.x`` and similar ones, which override the clusters' settings."""
    for name, prop in config.of_flow.get(flow, {}).items():
        match = _OF_ONE_CLIENT.fullmatch(name)
        if match is None or not _CONNECTS.fullmatch(match[4]) or (match[2] == "cluster" and not match[1]):
            continue
        side, kind, _, setting = match.groups()
        reads = side == "source." or (not side and kind == "consumer")
        cluster = flow[0] if reads else flow[1]
        own = config.of_client(cluster, setting)
        if _same(setting, prop, own):
            notes.drops(prop, SAME_CONNECTION)
        elif _DECIDES.fullmatch(setting):
            notes.mistake(prop, _refusal(kind, setting, prop, own, cluster))


def _same(setting: str, prop: Property, own: Property | None) -> bool:
    """One address in common is one cluster: a broker belongs to no two."""
    ours = own.value.strip() if own is not None else _DEFAULTS.get(setting, "")
    theirs = prop.value.strip()
    if setting == "bootstrap.servers" and own is not None:
        return ours == theirs or not set(servers(prop)).isdisjoint(servers(own))
    if own is not None and alike(prop, own):
        return True
    return ours == theirs or (setting == "security.protocol" and ours.upper() == theirs.upper())


def _refusal(kind: str, setting: str, prop: Property, own: Property | None, cluster: str) -> str:
    """Why a client that logs in otherwise than its cluster cannot be imported, and what to write. Values of secrets are
    never shown."""
    if setting in ("bootstrap.servers", "security.protocol", "sasl.mechanism"):
        ours = f'"{own.value.strip()}"' if own is not None else "not set"
        apart = f'it is "{prop.value.strip()}", and that of cluster {cluster} is {ours}'
    else:
        apart = (
            f"it is another one than that of cluster {cluster}" if own is not None else f"cluster {cluster} has none"
        )
    todo = "Name one cluster in both"
    if setting != "bootstrap.servers":
        elsewhere = "another identity of the mirror goes under principals afterwards"
        todo = f"Write what holds as {cluster}.{setting}, too ({elsewhere})"
    return f"{apart}. It decides {_EFFECTS[kind]}; a cluster has one connection here. {todo}, and import again."

"""Connections of single clients (``producer.override.bootstrap.servers``): where one of them is not its cluster's, the
flow of MirrorMaker 2 is another one than its clusters say.

Which clients are whose: MirrorConnectorConfig; ``producer.override`` is of the producer that writes the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.environment.importers.mirrormaker.client_settings import servers
from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Configuration, Flow, Notes, alike

_NAME = re.compile(r"((?:source|target)\.)?(cluster|producer|consumer|admin)\.(override\.)?((?:[a-z]+\.)+[a-z.]+)")
_DECIDES = re.compile(r"bootstrap\.servers|security\.protocol|sasl\..+")
_CONNECTS = re.compile(r"bootstrap\.servers|security\.protocol|(sasl|ssl)\..+")
_EFFECTS = {
    "producer": "where records are written",
    "consumer": "from where records are read",
    "admin": "where topics are looked for and made",
    "cluster": "where the flow reads and writes",
}
_DEFAULTS = {"security.protocol": "PLAINTEXT"}
SAME = "the same connection as its cluster's"


def check_cluster(cluster: str, config: Configuration, notes: Notes) -> None:
    """``B.producer.x``: what the cluster itself has not is refused, another login is told (``client_settings``)."""
    for name, prop in config.of_cluster[cluster].items():
        match = _NAME.fullmatch(name)
        if match is None or match[1] or match[2] == "cluster" or not _CONNECTS.fullmatch(match[4]):
            continue
        _, kind, override, setting = match.groups()
        own = config.of_client(cluster, setting)
        if override:
            notes.leaves_out(prop, "has no effect: override is of a connector's settings, behind A->B.")
        elif _same(setting, prop, own):
            notes.drops(prop, SAME)
        elif setting == "bootstrap.servers" or (own is None and _DECIDES.fullmatch(setting)):
            notes.mistake(prop, _refusal(kind, setting, prop, own, cluster, f"{cluster}.{setting}"))


def check_flow(flow: Flow, config: Configuration, notes: Notes) -> None:
    """``A->B.producer.override.x`` and its like, all of which count before what the clusters have."""
    for name, prop in config.of_flow.get(flow, {}).items():
        for cluster, kind, setting in _clients(flow, name):
            own = config.of_client(cluster, setting)
            if _same(setting, prop, own):
                notes.drops(prop, SAME)
            elif _DECIDES.fullmatch(setting):
                notes.mistake(prop, _refusal(kind, setting, prop, own, cluster, f"{cluster}.{setting}"))


def _clients(flow: Flow, name: str) -> Iterator[tuple[str, str, str]]:
    """Cluster, kind of client and setting, where ``name`` is one of a connection."""
    match = _NAME.fullmatch(name)
    if match is None or not _CONNECTS.fullmatch(match[4]):
        return
    side, kind, _, setting = match.groups()
    if side or kind != "cluster":
        source = side == "source." or (not side and kind == "consumer")
        yield flow[0] if source else flow[1], kind, setting


def _same(setting: str, prop: Property, own: Property | None) -> bool:
    """One address in common is one cluster: a broker belongs to no two."""
    ours = own.value.strip() if own is not None else _DEFAULTS.get(setting, "")
    theirs = prop.value.strip()
    if setting == "bootstrap.servers" and own is not None:
        return ours == theirs or not set(servers(prop)).isdisjoint(servers(own))
    if own is not None and alike(prop, own):
        return True
    return ours == theirs or (setting == "security.protocol" and ours.upper() == theirs.upper())


def _refusal(kind: str, setting: str, prop: Property, own: Property | None, cluster: str, place: str) -> str:
    if setting == "bootstrap.servers" or setting in ("security.protocol", "sasl.mechanism"):
        ours = f'"{own.value.strip()}"' if own is not None else "not set"
        apart = f'it is "{prop.value.strip()}", and that of cluster {cluster} is {ours}'
    else:
        apart = (
            f"it is another one than that of cluster {cluster}" if own is not None else f"cluster {cluster} has none"
        )
    if setting == "bootstrap.servers":
        todo = "Name one cluster in both"
    else:
        todo = f"Write what holds as {place}, too (another identity of the mirror goes under principals afterwards)"
    return f"{apart}. It decides {_EFFECTS[kind]}; a cluster has one connection here. {todo}, and import again."

"""Topics that an application makes and looks after by itself: Kafka Streams, Connect, a schema registry and others.

They are recognised by the names that those programs give, since nothing else on a cluster tells. Connect's three may
have any name before their ending, so they count where all three are there.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from reconciler.resources.protected_names import is_protected

STREAMS = "Kafka Streams"
CONNECT = "Kafka Connect"
REGISTRY = "a schema registry"
MIRRORMAKER = "MirrorMaker 2"

_STREAMS = re.compile(r".+-(changelog|repartition)|.+-KTABLE-.+-subscription-(registration|response)-.+|"
                      r".+-subscription-(registration|response)-[0-9]+-topic")  # fmt: skip
_REGISTRY = re.compile(r"_schemas|_schemas[._-].+|kafkasql-journal")
_MIRRORMAKER = re.compile(r"(.*[.-])?heartbeats|mm2-(configs|offsets|status)\..+\.internal|mm2.*[.-]internal")
_CONNECT = re.compile(r"(?P<worker>(.*[._-])?)(configs|config|offsets|offset|status)")
_CONNECT_ENDINGS = (("configs", "config"), ("offsets", "offset"), ("status",))


def owner_of(name: str, names: Collection[str]) -> str:
    """Who looks after topic ``name``, or empty. ``names``: all topics of its cluster."""
    if _STREAMS.fullmatch(name):
        return STREAMS
    if _REGISTRY.fullmatch(name):
        return REGISTRY
    if _MIRRORMAKER.fullmatch(name):
        return MIRRORMAKER
    if re.fullmatch(r"connect-(configs|offsets|status)", name) or _is_connects(name, names):
        return CONNECT
    return "another program" if is_protected(name) else ""


def _is_connects(name: str, names: Collection[str]) -> bool:
    """One of three topics of a worker, such as connect-cluster-offsets: each alone could be anybody's."""
    match = _CONNECT.fullmatch(name)
    if match is None or not match["worker"]:
        return False
    worker = match["worker"]
    return all(any(f"{worker}{ending}" in names for ending in endings) for endings in _CONNECT_ENDINGS)

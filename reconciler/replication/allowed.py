"""The variable ``RECONCILER_ALLOW``: limits, from outside of an environment, what its YAML may name.

The author of an edit, such as a stranger with a pull request, must not decide which secret is sent where, or which code
runs. The variable holds words ``kind:pattern`` separated by spaces, such as ``host:*.example.net env:EAST_*``.
"""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from reconciler.kafka.address import HostPort, host_port

VARIABLE = "RECONCILER_ALLOW"
_HOST_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.*]+\]|[A-Za-z0-9_.*?!\[\]-]+)(:[0-9*?]+)?")
KINDS = ("host", "env", "file", "policy", "token", "hook")
"""Addresses (a port may follow), variables of ``${env:}``, folders of ``${file:}`` and of files in client settings,
naming policies, providers of tokens, programs, URLs and files of hooks. A kind that is not named is not limited; the
last three are: code is imported or run for them."""
POLICY_GROUP = "reconciler.naming_policies"
TOKEN_GROUP = "reconciler.token_providers"  # noqa: S105 - a name
"""Entry points of installed packages (their metadata is read, nothing is imported)."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Patterns by kind."""

    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lists(self, kind: str, value: str) -> bool:
        """Whether a pattern names ``value``."""
        return any(_fits(kind, pattern, value) for pattern in self.patterns.get(kind, ()))

    def permits(self, kind: str, value: str) -> bool:
        return kind not in self.patterns or self.lists(kind, value)


def allowed(environ: Mapping[str, str]) -> Allowed:
    """Parses the variable. Raises ValueError for a malformed word, whose limit would otherwise not apply."""
    patterns: dict[str, tuple[str, ...]] = {}
    for word in environ.get(VARIABLE, "").split():
        kind, _, pattern = word.partition(":")
        if kind not in KINDS or not pattern:
            raise ValueError(f"{VARIABLE} holds {word!r}; its words are kind:pattern, the kinds {', '.join(KINDS)}")
        if kind == "host" and not _HOST_PATTERN.fullmatch(pattern):
            raise ValueError(f"{VARIABLE} holds {word!r}; after host: comes a host's name, perhaps with * and a :port")
        patterns[kind] = (*patterns.get(kind, ()), pattern)
    return Allowed(patterns)


def word_for(kind: str, value: str) -> str:
    """The word that allows ``value``, and at most its folder; empty if there is none. ``value`` comes from an edit, so
    a pattern, several words or a folder of the edit is never proposed."""
    if kind == "env":
        return f"env:{value}" if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value) else ""
    if kind == "file":
        folder = posixpath.dirname(value)
        plain = re.fullmatch("/[A-Za-z0-9_./+=@,-]+", folder) and ".." not in folder.split("/")
        return f"file:{folder}" if plain else ""
    return f"{kind}:{value}"


class _Permitted:
    listed = Allowed()


def permit_policies(listed: Allowed) -> None:
    """Permits these policies in this process, for the reader of its environment. By default only policies of entry
    points are permitted."""
    _Permitted.listed = listed


def policy_permitted(policy: str) -> bool:
    """``policy``: ``package.module:Class``. Imports nothing of it."""
    return _Permitted.listed.lists("policy", policy) or _declared(POLICY_GROUP, policy)


def provider_permitted(provider: str, listed: Allowed) -> bool:
    """``provider``: ``package.module:function`` of ``sasl.oauthbearer.method``. Imports nothing of it."""
    return listed.lists("token", provider) or _declared(TOKEN_GROUP, provider)


def _declared(group: str, value: str) -> bool:
    from importlib import metadata  # who has no code of their own does not wait for it

    return value in (point.value for point in metadata.entry_points(group=group))


def _fits(kind: str, pattern: str, value: str) -> bool:
    """Whether the value is within a pattern of its kind. In doubt it is not: a pattern grants the reading of files and
    the running of programs."""
    if kind == "file":
        # The parent of a folder that is a link is that of the folder it leads to, which no text shows.
        if ".." in value.split("/"):
            return False
        return posixpath.normpath(value).startswith(f"{posixpath.normpath(pattern)}/")
    if kind == "host":
        try:
            return names_host(pattern.lower(), host_port(value))
        except ValueError:
            return False
    if kind == "hook":
        # The whole target of a hook, or its beginning before a ``*`` at the end, which is a folder, or a URL with its
        # host. No other character means anything: ``*`` within would also name what lies between two folders.
        if not pattern.endswith("*"):
            return value == pattern
        head = pattern.removesuffix("*")
        slashes = 3 if "://" in head else 1
        return head.count("/") >= slashes and value.startswith(head) and ".." not in value.split("/")
    return fnmatchcase(value, pattern)


def names_host(pattern: str, address: HostPort) -> bool:
    """The whole host, and the whole port where the pattern has one."""
    if ":" in address.host:
        inner, bracket, port = pattern.removeprefix("[").rpartition("]")
        host, named = (inner, port.removeprefix(":")) if bracket and pattern.startswith("[") else (pattern, "")
    else:
        host, _, named = pattern.partition(":")
    return _is_name(host.removesuffix("."), address.compared) and fnmatchcase(str(address.port), named or "*")


def _is_name(pattern: str, host: str) -> bool:
    """``*`` names several labels at the left of others, or alone; else a part of one. ``east.*.net`` names no host of
    ``evil.net``."""
    if pattern == "*" or host.replace(".", "").isdigit() or ":" in host:
        return fnmatchcase(host, pattern)
    first, *others = pattern.split(".")
    labels = host.split(".")
    at = len(labels) - len(others)
    if at < 1 or (at > 1 and not others):
        return False
    return fnmatchcase(".".join(labels[:at]), first) and all(map(fnmatchcase, labels[at:], others))

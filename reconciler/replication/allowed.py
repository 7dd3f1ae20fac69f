"""What the YAML of an environment may name, said from outside of it: the variable ``RECONCILER_ALLOW``.

Who edits an environment, such as a stranger with a pull request, must not choose which secret goes to which address
or which code runs. The variable holds words ``kind:pattern`` between spaces, such as ``host:*.example.net env:EAST_*``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

VARIABLE = "RECONCILER_ALLOW"
KINDS = ("host", "env", "file", "policy")
"""Addresses (a port may follow), variables of ``${env:}``, folders of ``${file:}`` and of files in client settings,
naming policies. A kind that is not named is not limited; policies are: code is imported for them."""
POLICY_GROUP = "reconciler.naming_policies"
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
    """Raises ValueError for a word that is none, because what it was to limit would not be limited."""
    patterns: dict[str, tuple[str, ...]] = {}
    for word in environ.get(VARIABLE, "").split():
        kind, _, pattern = word.partition(":")
        if kind not in KINDS or not pattern:
            raise ValueError(f"{VARIABLE} holds {word!r}; its words are kind:pattern, the kinds {', '.join(KINDS)}")
        patterns[kind] = (*patterns.get(kind, ()), pattern)
    return Allowed(patterns)


def address_of(url: str) -> str:
    """Host and port, without a user's name, which may look like a host."""
    return urlsplit(url).netloc.rpartition("@")[2]


class _Permitted:
    listed = Allowed()


def permit_policies(listed: Allowed) -> None:
    """For this process, by whoever reads its environment. Without it, only those of entry points are."""
    _Permitted.listed = listed


def policy_permitted(policy: str) -> bool:
    """``policy``: ``package.module:Class``. Imports nothing of it."""
    from importlib import metadata  # who has no policy of their own does not wait for it

    declared = (point.value for point in metadata.entry_points(group=POLICY_GROUP))
    return _Permitted.listed.lists("policy", policy) or policy in declared


def _fits(kind: str, pattern: str, value: str) -> bool:
    if kind == "file":
        # The parent of a folder that is a link is that of the folder it leads to, which no text tells.
        if ".." in value.split("/"):
            return False
        return posixpath.normpath(value).startswith(f"{posixpath.normpath(pattern)}/")
    if kind == "host":
        host, _, _ = value.lower().rpartition(":")
        return any(fnmatchcase(name, pattern.lower()) for name in (value.lower(), host))
    return fnmatchcase(value, pattern)

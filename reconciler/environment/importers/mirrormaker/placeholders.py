"""Values that something fills in before MirrorMaker 2 uses them: config providers, entry scripts, templates.

What they hold is in no file here. Secrets and some settings of clients become references of ours (``client_settings``);
addresses, expressions and numbers decide what is copied, so they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reconciler.environment.importers.mirrormaker.flows import OF_CONSUMER, OF_FLOW
from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Notes

_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|\{\{.*?\}\}|<%.*?%>")
_OF_PROVIDER = re.compile(r"\$\{([A-Za-z][\w.-]*):(?:(.+):)?([^:{}]+)\}")
_NEEDED = (*OF_FLOW, "clusters", "bootstrap.servers", *(f"consumer.{name}" for name in OF_CONSUMER))


def refuse_placeholders(properties: Iterable[Property], notes: Notes) -> None:
    """Once for each property, instead of whatever else would be wrong with it."""
    for prop in properties:
        placeholder = _PLACEHOLDER.search(prop.value)
        if placeholder and any(prop.name == name or prop.name.endswith((f".{name}", f">{name}")) for name in _NEEDED):
            notes.mistake(prop, _words(placeholder.group()))
            notes.unfilled.add(prop)


def _words(placeholder: str) -> str:
    if match := _OF_PROVIDER.fullmatch(placeholder):
        provider, place, key = match.groups()
        inside = f"key {key} of {place}" if place else key
        given = f"which MirrorMaker 2's config provider {provider} fills in ({inside})"
    else:
        given = "which is filled in before MirrorMaker 2 reads the file"
    return (
        f"it holds {placeholder}, {given}. What is copied, and from where, cannot depend on it: references are for "
        "secrets and settings of clients. Write the value, and import again."
    )

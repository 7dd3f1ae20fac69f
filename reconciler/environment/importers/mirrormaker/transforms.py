"""Single message transforms of a connector: what takes the place of each, since no code of yours runs here."""

from __future__ import annotations

import re

from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Configuration, Flow, Notes, words

_REPLACED = (
    (r"RegexRouter|TimestampRouter|.*Router", "It renames topics: `naming.policy` of the flow, as a class in Python"),
    (r"InsertHeader", "`headers: add` of the flow does it"),
    (r"Filter", "`where` of the flow keeps records by key, header or time, `exclude_topics` leaves out topics"),
)
_OTHER = "It changes records, and here their bytes stay as they are: change them before or behind the mirror"


def refuse_transforms(flow: Flow, config: Configuration, notes: Notes) -> None:
    """Without it other records would be copied, or to other topics. Of each the line of its class, else of its name."""
    listed = config.of_connector(flow, "transforms")
    if listed is None:
        return
    own = config.of_flow.get(flow, {})
    for name in words(listed):
        kind = own.get(f"transforms.{name}.type")
        notes.settled |= {prop for key, prop in own.items() if key.startswith(f"transforms.{name}.")}
        notes.mistake(kind or listed, _words(name, kind))


def _words(name: str, kind: Property | None) -> str:
    # Filter of Kafka is Filter, of others Filter$Value
    short = re.split(r"[.$]", kind.value.strip().removesuffix("$Key").removesuffix("$Value"))[-1] if kind else ""
    instead = next((text for pattern, text in _REPLACED if short and re.fullmatch(pattern, short)), _OTHER)
    shown = f'transform {name} is "{short}"' if short else f"transform {name} has no class"
    todo = "Remove its lines (transforms, and predicates that only it uses), import again"
    return f"{shown}. {instead}. {todo}, and add that to the flow."

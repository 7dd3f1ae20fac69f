"""The saved plan: its JSON format, written and read back (schemas/plan.schema.json).

Shape: schemas/plan.schema.json. Within one format version fields are only added.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from reconciler.engine.plan.summary import summarize, verdict
from reconciler.errors import ReconcilerError
from reconciler.model.changes import CHANGES, Change, Risk, Subject
from reconciler.model.plan import FORMAT_VERSION, Plan
from reconciler.replication.handover import canonical_json
from reconciler.replication.json_codec import Codec, parsed
from reconciler.text import printable_json

T = TypeVar("T")
_KINDS: Mapping[str, type[Change]] = {change.word: change for change in CHANGES}
_KIND_OF = {change: word for word, change in _KINDS.items()}
KINDS = tuple(_KINDS)
_DERIVED = ("digest", "kind", "verdict", "exit_code", "summary")
_AGAIN = "Make a new one with plan --out, and do not edit it."


class PlanfileError(ReconcilerError):
    """A saved plan that cannot be trusted or read."""


def change_document(change: Change) -> dict[str, Any]:
    """One change as in the schema, with its kind and action."""
    if type(change) not in _KIND_OF:
        raise TypeError(f"no kind knows changes of class {type(change).__name__}")
    return {"kind": _KIND_OF[type(change)], "action": change.action.value, **_CODEC.encoded(change)}


def dumps(plan: Plan) -> str:
    document = _document(plan)
    return printable_json({**document, "digest": sealed(document)}, indent=2) + "\n"


def digest(plan: Plan) -> str:
    """sha256 over the canonical content of the saved plan. It finds damage and slips, not forgery: apply compares a
    saved plan with a fresh one."""
    return sealed(_document(plan))


def loads(text: str) -> Plan:
    """Raises PlanfileError for anything that is not exactly what ``dumps`` wrote."""
    return read_back(text, SavedKind("plan", "saved plan", "plan.schema.json", _AGAIN, FORMAT_VERSION), _plan)


def _plan(document: Mapping[str, Any]) -> Plan:
    plan = _CODEC.decoded(Plan, {key: value for key, value in document.items() if key not in _DERIVED})
    for planned in plan.changes:
        Risk(planned.risk)
    return plan


@dataclass(frozen=True, slots=True)
class SavedKind:
    """A kind of saved plan: its word in JSON, what it is called, its schema below schemas/, what to do with one that
    cannot be used, and the format version that is read."""

    word: str
    name: str
    schema: str
    again: str
    version: int


def read_back(text: str, kind: SavedKind, read: Callable[[Mapping[str, Any]], T]) -> T:
    """What ``read`` makes of the document without its digest. Raises PlanfileError for anything that is not exactly
    what was written."""
    try:
        document = parsed(text)
    except json.JSONDecodeError as error:
        description = f"the {kind.name} is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise PlanfileError(description, "It may have been cut off", kind.again) from None
    except ValueError as error:
        raise PlanfileError(f"the {kind.name} cannot be read: {error}", "No plan holds this", kind.again) from None
    if not isinstance(document, dict) or document.get("kind") != kind.word:
        raise PlanfileError(f"this file is no {kind.name}", f"It has no kind: {kind.word}", kind.again)

    # The version comes before the digest: a plan of another release would be called damaged otherwise.
    version = document.get("format_version")
    if version != kind.version:
        description = f"the {kind.name} has format version {version}, this reconciler reads {kind.version}"
        raise PlanfileError(description, "It was made by another release", kind.again)
    said = document.pop("digest", None)
    if said != (real := sealed(document)):
        description = f"the {kind.name} is not as it was written: its digest is {real[:16]}, it says {str(said)[:16]}"
        raise PlanfileError(description, "What was reviewed is not what would be applied", kind.again)
    try:
        return read(document)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        description = f"the {kind.name} has a wrong shape: {error}"
        raise PlanfileError(description, f"It does not follow schemas/{kind.schema}", kind.again) from None


def _document(plan: Plan) -> dict[str, Any]:
    content = _CODEC.encoded(plan)
    version = content.pop("format_version")
    return {
        "format_version": version,
        "kind": "plan",
        "verdict": verdict(plan),
        "exit_code": int(plan.exit_code),
        "summary": _CODEC.encoded(summarize(plan)),
        **content,
    }


def sealed(document: Mapping[str, Any]) -> str:
    """sha256 over the canonical content of a document."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _changed(document: Mapping[str, Any]) -> Change:
    content = {key: inner for key, inner in document.items() if key not in ("kind", "action")}
    return _CODEC.decoded(_KINDS[document["kind"]], content)


_CODEC = Codec({Change: (change_document, _changed), Subject: (str, Subject.of_text)})

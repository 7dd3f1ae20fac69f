"""A plan as JSON text and back. The text that ``plan --format json`` prints is the text that ``apply --plan`` reads.

Shape: schemas/plan.schema.json. Within one format version fields are only added. Border: text, not files.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    StartMirror,
    StopMirror,
)
from reconciler.errors import ReconcilerError
from reconciler.handover import canonical_json
from reconciler.plans import FORMAT_VERSION, Plan
from reconciler.sparse import sparse_fields
from reconciler.summary import action, summarize, verdict

_KINDS: Mapping[str, type[Change]] = {
    "create_topic": CreateTopic,
    "add_partitions": AddPartitions,
    "alter_configs": AlterConfigs,
    "start_mirror": StartMirror,
    "restart_mirror": RestartMirror,
    "stop_mirror": StopMirror,
    "delete_topic": DeleteTopic,
    "create_acl": CreateAcl,
    "delete_acl": DeleteAcl,
    "alter_quota": AlterQuota,
    "alter_user": AlterUser,
    "delete_user": DeleteUser,
    "reassign_replicas": ReassignReplicas,
    "finish_reassignment": FinishReassignment,
}
_KIND_OF = {made: kind for kind, made in _KINDS.items()}
KINDS = tuple(_KINDS)
_DERIVED = ("digest", "kind", "verdict", "exit_code", "summary")
_AGAIN = "Make a new one with plan --out, and do not edit it."


class PlanfileError(ReconcilerError):
    """A saved plan that cannot be trusted or read."""


def kind_of(change: Change) -> str:
    """The word of the schema: ``create_topic``."""
    return _KIND_OF[type(change)]


def change_document(change: Change) -> dict[str, Any]:
    """One change as in the schema, with its kind and action."""
    document: dict[str, Any] = _encoded(change)
    return document


def dumps(plan: Plan) -> str:
    document = _document(plan)
    return json.dumps({**document, "digest": _digest(document)}, indent=2, ensure_ascii=False) + "\n"


def digest(plan: Plan) -> str:
    """sha256 over the canonical content of the saved plan."""
    return _digest(_document(plan))


def loads(text: str) -> Plan:
    """Raises PlanfileError for anything that is not exactly what ``dumps`` wrote."""
    try:
        document = json.loads(text)
        canonical_json(document).encode()
    except json.JSONDecodeError as error:
        what = f"the saved plan is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise PlanfileError(what, "It may have been cut off", _AGAIN) from None
    except (RecursionError, UnicodeEncodeError) as error:
        raise PlanfileError(f"the saved plan cannot be read: {error}", "No plan holds this", _AGAIN) from None
    if not isinstance(document, dict) or document.get("kind") != "plan":
        raise PlanfileError("this file is not a saved plan", "It has no kind: plan", _AGAIN)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        what = f"the saved plan has format version {version}, this reconciler reads {FORMAT_VERSION}"
        raise PlanfileError(what, "It was made by another release", _AGAIN)
    said = document.pop("digest", None)
    if said != (real := _digest(document)):
        what = f"the saved plan was changed after it was made: its digest is {real[:16]}, it says {str(said)[:16]}"
        raise PlanfileError(what, "What was reviewed is not what would be applied", _AGAIN)
    try:
        plan: Plan = _decoded(Plan, {key: value for key, value in document.items() if key not in _DERIVED})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        what = f"the saved plan has a wrong shape: {error}"
        raise PlanfileError(what, "It does not follow schemas/plan.schema.json", _AGAIN) from None
    return plan


def _document(plan: Plan) -> dict[str, Any]:
    content: dict[str, Any] = _encoded(plan)
    version = content.pop("format_version")
    return {
        "format_version": version,
        "kind": "plan",
        "verdict": verdict(plan),
        "exit_code": int(plan.exit_code),
        "summary": _encoded(summarize(plan)),
        **content,
    }


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _encoded(value: Any) -> Any:
    made = type(value)
    if made in _KIND_OF:
        return {"kind": _KIND_OF[made], "action": action(value).value, **_fields_encoded(value)}
    if is_dataclass(made):
        return _fields_encoded(value)
    if isinstance(value, Mapping):
        return {key: _encoded(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_encoded(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


def _fields_encoded(value: Any) -> dict[str, Any]:
    left_out = sparse_fields(type(value))  # type: ignore[arg-type]
    told = {name: getattr(value, name) for name in _hints(type(value))}  # type: ignore[arg-type]
    return {name: _encoded(one) for name, one in told.items() if name not in left_out or one != left_out[name]}


@cache
def _hints(noun: type) -> dict[str, Any]:
    """Field -> annotation, in the order of the fields."""
    hints = get_type_hints(noun)
    return {field.name: hints[field.name] for field in fields(noun)}


def _decoded(wanted: Any, value: Any) -> Any:
    """``value`` as ``wanted``, an annotation of our nouns. Raises TypeError, ValueError or KeyError where it is not."""
    if wanted == Change:
        content = {key: inner for key, inner in value.items() if key not in ("kind", "action")}
        return _decoded(_KINDS[value["kind"]], content)
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return None if value is None else _decoded(next(t for t in inner if t is not type(None)), value)
    if origin is tuple:
        return tuple(_decoded(inner[0], one) for one in value)
    if is_dataclass(wanted):
        hints = _hints(wanted)  # type: ignore[arg-type]
        if value.keys() | sparse_fields(wanted).keys() != hints.keys():  # type: ignore[arg-type]
            raise TypeError(f"fields of {wanted.__name__} are {sorted(value)}")  # type: ignore[union-attr]
        return wanted(**{name: _decoded(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if not issubclass(wanted, Enum) and type(value) is not wanted:
        raise TypeError(f"{value!r} is no {wanted.__name__}")
    return wanted(value)

"""The saved plan: its JSON format, written and read (schemas/plan.schema.json), and the fingerprints of its basis.

Within one format version fields are only added.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reconciler.engine.kinds import STATES, kind_of
from reconciler.engine.observe.read_all import ReadScope
from reconciler.engine.plan.summary import summarize, verdict
from reconciler.errors import ReconcilerError
from reconciler.model.changes import CHANGES, About, Change, Risk, Subject
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import FORMAT_VERSION, Observation, Plan
from reconciler.replication.handover import canonical_json
from reconciler.replication.json_codec import Codec, parsed, sparse_fields
from reconciler.resources.flows.routes import Route
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


def _plan(document: Mapping[str, Any]) -> Plan:
    plan = _CODEC.decoded(Plan, {key: value for key, value in document.items() if key not in _DERIVED})
    for planned in plan.changes:
        Risk(planned.risk)
    return plan


@dataclass(frozen=True, slots=True)
class SavedKind(Generic[T]):
    """A kind of saved plan: its word in JSON, its name, its schema below schemas/, the remedy for an unusable one, the
    readable format version; and functions that write and read its document without the digest."""

    word: str
    name: str
    schema: str
    again: str
    version: int
    document: Callable[[T], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], T]

    def dumps(self, plan: T) -> str:
        document = self.document(plan)
        return printable_json({**document, "digest": _sealed(document)}, indent=2) + "\n"

    def digest(self, plan: T) -> str:
        """sha256 over the canonical content. It finds damage and slips, not forgery: apply compares the plan with the
        clusters."""
        return _sealed(self.document(plan))

    def loads(self, text: str) -> T:
        """Raises PlanfileError for anything that is not exactly what ``dumps`` wrote."""
        try:
            document = parsed(text)
        except json.JSONDecodeError as error:
            problem = f"is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
            raise self._unusable(problem, "It may have been cut off") from None
        except ValueError as error:
            raise self._unusable(f"cannot be read: {error}", "No plan holds this") from None
        if not isinstance(document, dict) or document.get("kind") != self.word:
            raise PlanfileError(f"this file is no {self.name}", f"It has no kind: {self.word}", self.again)

        # The version comes before the digest, so that a plan of another release is not called damaged.
        if (version := document.get("format_version")) != self.version:
            problem = f"has format version {version}, this reconciler reads {self.version}"
            raise self._unusable(problem, "It was made by another release")
        said = document.pop("digest", None)
        if said != (real := _sealed(document)):
            problem = f"is not as it was written: its digest is {real[:16]}, it says {str(said)[:16]}"
            raise self._unusable(problem, "What was reviewed is not what would be applied")
        try:
            return self.read(document)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            why = f"It does not follow schemas/{self.schema}"
            raise self._unusable(f"has a wrong shape: {error}", why) from None

    def _unusable(self, problem: str, why: str) -> PlanfileError:
        return PlanfileError(f"the {self.name} {problem}", why, self.again)


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


def _sealed(document: Mapping[str, Any]) -> str:
    """sha256 over the canonical content of a document."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _changed(document: Mapping[str, Any]) -> Change:
    content = {key: inner for key, inner in document.items() if key not in ("kind", "action")}
    return _CODEC.decoded(_KINDS[document["kind"]], content)


_CODEC = Codec({Change: (change_document, _changed), Subject: (str, Subject.of_text)})
_SAVED = SavedKind("plan", "saved plan", "plan.schema.json", _AGAIN, FORMAT_VERSION, _document, _plan)
dumps, digest, loads = _SAVED.dumps, _SAVED.digest, _SAVED.loads


# Fingerprints of a plan's basis, words for changes of it since, and the reads by which apply checks it.

_SIMPLE = frozenset({str, int, float, bool, type(None)})
_MAPPINGS = frozenset({dict, MappingProxyType})
"""Compared by type, which is ten times as fast as asking whether something is a mapping."""


def subjects(changes: Iterable[Change], routes: Iterable[Route]) -> set[Subject]:
    """Exactly what the changes rest on: their topics, the sources of those topics, mirror jobs and clusters."""
    sources = {route.remote: route.source for route in routes}
    return {subject for change in changes for subject in kind_of(change).rests_on(change, sources)}


def observe_again(subjects: Iterable[Subject], live: LiveState) -> tuple[Observation, ...]:
    """The same subjects with their state in ``live``. Raises KeyError for one that no kind observes."""
    states: dict[About, Callable[[Subject], str]] = {}
    observed = []
    for subject in subjects:
        if (state := states.get(subject.about)) is None:
            state = states[subject.about] = STATES[subject.about](live)
        text = state(subject)
        observed.append(Observation(subject, hashlib.sha256(text.encode()).hexdigest()[:16], text))
    return tuple(observed)


def shown(text: str) -> str:
    """The text of an observation for people: configs in the units of the plan itself."""
    pairs = (part.partition("=") for part in text.split(", "))
    return ", ".join(f"{key}={human(key, value)}" if sign else key for key, sign, value in pairs)


def topology_digest(topology: Topology) -> str:
    """sha256 of everything declared; files and lines do not count."""
    return hashlib.sha256(canonical_json(_plain(topology)).encode()).hexdigest()


def _plain(value: Any) -> object:
    """The value as JSON has it, in a canonical form. Fields at their sparse default are left out, so that a new field
    changes no fingerprint of old files."""
    # Called for each value of a topology, for all its topics: the most frequent types come first, and without a further
    # call.
    kind: Any = type(value)
    if kind in _SIMPLE:
        return value
    if kind in _MAPPINGS or isinstance(value, Mapping):
        if not value:
            return {}
        return {str(key): v if type(v) in _SIMPLE else _plain(v) for key, v in value.items()}
    if names := _fields(kind):
        by_name = {n: v if type(v := getattr(value, n)) in _SIMPLE else _plain(v) for n in names}
        for name, default in sparse_fields(kind).items():
            if getattr(value, name) == default:
                del by_name[name]
        return by_name
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a class that a digest covers; looked up once for each class, since a topology has tens of thousands
    of values."""
    return tuple(f.name for f in fields(kind) if f.compare and f.name != "where") if is_dataclass(kind) else ()


def basis(observed: Collection[Subject]) -> tuple[ReadScope, tuple[str, ...]]:
    """What to read of clusters, and the mirrors, for the subjects of a plan's basis and nothing more."""
    topics: dict[str, list[str]] = {subject.cluster: [] for subject in observed if subject.cluster}
    for subject in observed:
        if subject.about in (About.TOPIC_STATE, About.REPLICAS):
            topics[subject.cluster].append(subject.name)

    def clusters(about: About) -> frozenset[str]:
        return frozenset(subject.cluster for subject in observed if subject.about is about)

    mirrors = tuple(subject.name for subject in observed if subject.about is About.MIRROR)
    return ReadScope(clusters(About.ACL), clusters(About.QUOTA_STATE), (), clusters(About.USER), topics), mirrors

"""The records by which ``apply`` and mirror hosts agree on a mirror, and their JSON in Kafka. Frozen.

Each record has its format version and the oldest reader that understands it, so that hosts and reconcilers can be
upgraded in either order, one release apart. Unknown fields are ignored.

Format: schemas/reports/mirror-desired.schema.json and schemas/reports/mirror-host.schema.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from reconciler.replication.handover import fingerprint as fingerprint_of
from reconciler.replication.json_codec import Codec, parsed

FORMAT_VERSION = 1
OLDEST_READER = 1
"""Readers of this format version and later ones understand our records."""
OLDEST_WRITER = 1
"""We understand records of this format version and later ones."""
LEASE_MS = 15_000
"""A host loses its lease after this time without a renewal."""

_MOST = 2**53
"""The largest valid generation, epoch or beat: a larger one is not ours, and would leave no room for the next."""

Document = dict[str, Any]


class DesiredState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class HostPhase(StrEnum):
    """A host's work on the generation that it reports. LEAVING: the host ends, and another one may take over while the
    application still copies."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REFUSED = "refused"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class DesiredMirror:
    """How a mirror has to run, for the process that keeps it running."""

    environment: str
    mirror: str
    generation: int
    """One more with each record."""
    state: DesiredState
    """Whether it has to run."""
    fingerprint: str
    handover: Document
    """The definition, with references to secrets, never their values."""
    submission: Document
    """Input of spark-submit (master, spark_conf); the fingerprint covers it and the hand-over."""
    who: str
    """The user whose apply wrote it, from files of ``commit``."""
    commit: str
    written_ms: int

    def actual_fingerprint(self) -> str:
        """The fingerprint of the record's contents, whatever its field ``fingerprint`` says."""
        return fingerprint_of({**{k: v for k, v in self.handover.items() if k != "fingerprint"}, **self.submission})


@dataclass(frozen=True, slots=True)
class HostReport:
    """A host's report on one mirror. ``what``, ``why``, ``todo``: a refusal; ``what`` alone: what the host waits
    for."""

    generation: int = 0
    """Of the desired record that it is about; 0: none yet."""
    phase: HostPhase = HostPhase.WAITING
    application_id: str = ""
    fingerprint: str = ""
    what: str = ""
    why: str = ""
    todo: str = ""
    restarts: int = 0
    """Restarts of this generation after crashes."""


@dataclass(frozen=True, slots=True)
class HostLease:
    """The right of one process to run a mirror."""

    environment: str
    mirror: str
    host: str
    """Unique to one process."""
    epoch: int
    """Number of changes of the mirror's host."""
    beat: int
    """Counts renewals, so that a reader's own clock shows whether the holder lives."""
    machine: str
    """Host name, for people; ``version``: of the host's program."""
    pid: int
    version: str
    renewed_ms: int
    """By the holder's clock, for people: others go by ``beat``."""
    lease_ms: int = LEASE_MS
    """Without a renewal for so long, another host may take it."""
    released: bool = False
    """Anyone may take it at once."""
    report: HostReport = field(default_factory=HostReport)
    """The host's report on the mirror, which travels with each renewal."""

    @property
    def words(self) -> str:
        return f"{self.machine}, process {self.pid}, release {self.version}"


@dataclass(frozen=True, slots=True)
class HostPresence:
    """A host that waits for desired records, or did so until it was killed."""

    environment: str
    host: str
    machine: str
    pid: int
    version: str
    since_ms: int
    accepts: str
    """What it accepts, in words for messages."""

    @property
    def words(self) -> str:
        return f"{self.machine}, process {self.pid}, accepting {self.accepts}"


class UnreadableRecordError(ValueError):
    """An unusable record of the control topic: the problem, in words."""


Record = TypeVar("Record")
_CODEC = Codec({Document: (dict, lambda given: _document(given))}, lenient=True)


def _document(given: object) -> Document:
    if not isinstance(given, dict):
        raise TypeError("it must be an object")
    return given


class ControlRecord(Generic[Record]):
    """The JSON of one kind of record. ``name``: for messages."""

    def __init__(self, kind: type[Record], name: str) -> None:
        self._kind = kind
        self._name = name

    def dumps(self, value: Record) -> bytes:
        versions = {"format_version": FORMAT_VERSION, "oldest_reader": OLDEST_READER}
        return json.dumps({**versions, **_CODEC.encoded(value)}, sort_keys=True, separators=(",", ":")).encode()

    def loads(self, value: bytes, key: Mapping[str, str]) -> Record:
        """``key``: the fields in the record's key, which its value must repeat. Raises UnreadableRecordError."""
        try:
            document = _document(parsed(value))
        except (ValueError, TypeError):
            raise UnreadableRecordError(f"the {self._name} is no JSON object") from None
        version, oldest = document.pop("format_version", None), document.pop("oldest_reader", None)
        if type(version) is not int or type(oldest) is not int:
            raise UnreadableRecordError(f"the {self._name} does not say its format version")
        # A later release says itself which readers understand it, so that hosts need not be upgraded in one step.
        if oldest > FORMAT_VERSION or version < OLDEST_WRITER:
            raise UnreadableRecordError(
                f"the {self._name} has format version {version}, for readers from {oldest} on; this release reads"
                f" {OLDEST_WRITER} to {FORMAT_VERSION}"
            )
        try:
            record = _CODEC.decoded(self._kind, document)
        except (ValueError, TypeError) as error:
            raise UnreadableRecordError(f"the {self._name} cannot be understood: {error}") from None
        # Generations and epochs only grow. One at the limit, by an error or by intent, would block the mirror for good.
        for part in (document, document.get("report")):
            counts = part.values() if isinstance(part, dict) else ()
            if any(isinstance(count, int) and count > _MOST for count in counts):
                raise UnreadableRecordError(f"the {self._name} counts beyond {_MOST}, so none could come after it")
        for name, expected in key.items():
            if (said := getattr(record, name)) != expected:
                raise UnreadableRecordError(f"the {self._name} is of {name} {said!r}, and its key of {expected!r}")
        return record


DESIRED = ControlRecord(DesiredMirror, "desired record")
LEASE = ControlRecord(HostLease, "host's record")
PRESENCE = ControlRecord(HostPresence, "presence record")


def read_desired(value: bytes | None, environment: str, mirror: str) -> DesiredMirror | None:
    """None without a record. Raises UnreadableRecordError."""
    return None if value is None else DESIRED.loads(value, {"environment": environment, "mirror": mirror})


def read_lease(value: bytes | None, environment: str, mirror: str) -> HostLease | None:
    """As ``read_desired``."""
    return None if value is None else LEASE.loads(value, {"environment": environment, "mirror": mirror})

"""Deploy mode cluster: records exchanged between a driver on the cluster and the process that submitted it.

Records in the status topic, which the mirror's principal reads and writes anyway, under
``run/<environment>/<mirror>/<run>/``: ``definition`` and ``orders`` of the submitter, ``report`` of the driver. A *run*
is one submission. All three are deleted when the driver has ended; a definition that is deleted before withdraws a
submission that still waits for its place.
"""

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass, field
from typing import Literal

from reconciler.replication.handover import CODEC, HandoverError, StatusPlace
from reconciler.replication.json_codec import SPARSE, Codec, JsonRecord, MalformedError, parsed

Part = Literal["definition", "orders", "report"]
PARTS: tuple[Part, ...] = ("definition", "orders", "report")
NO_DEFINITION = 20
"""Exit code of a driver that could not read its definition: all that its submitter hears of why."""
MOST_DEFINITION_BYTES = 64 * 1024 * 1024
"""Limit after decompression: a record of a megabyte may become larger in memory."""


def run_prefix(status_key: str) -> str:
    """Key prefix of all runs of a mirror; ``status_key``: ``<environment>/<mirror>``."""
    return f"run/{status_key}/"


def run_key(status_key: str, run: str, part: Part) -> str:
    return f"{run_prefix(status_key)}{run}/{part}"


def run_of(status_key: str, key: str) -> tuple[str, Part] | None:
    """The run in a key; None if the key is not of this mirror."""
    prefix = run_prefix(status_key)
    run, _, name = key.removeprefix(prefix).partition("/")
    part = next((part for part in PARTS if part == name), None)
    return (run, part) if key.startswith(prefix) and run and part is not None else None


@dataclass(frozen=True, slots=True)
class RunDefinition:
    """What a driver in deploy mode cluster reads in place of files."""

    handover: str
    """Text of the hand-over file."""
    goal: str = field(default="", metadata=SPARSE)
    """Text of ``goal.json``; empty for a job that runs on."""
    beside: bool = field(default=False, metadata=SPARSE)
    """An earlier application copies, and is to be replaced once the flows in ``needs`` are ready."""
    needs: tuple[str, ...] = field(default=(), metadata=SPARSE)

    @property
    def digest(self) -> str:
        """SHA-256 of the definition, by which the driver recognises its own, without its starting place."""
        return hashlib.sha256(f"{self.handover}\0{self.goal}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RunOrders:
    """Orders to a driver in deploy mode cluster, by the process that follows it."""

    follower: str = ""
    """The process that follows the run now."""
    stop: bool = False
    replaced: bool = False
    """A new application has taken over."""
    predecessor_left: bool = False
    """The former application has left its lanes, or is dead."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """``exit_code`` as in client mode, None while it runs. ``beat`` counts up every two seconds, so that a dead driver
    is silent."""

    definition: str
    """Digest of the definition with which it runs."""
    host: str
    pid: int
    application_id: str = ""
    started_at_ms: int = 0
    phase: str = ""
    taken: bool = False
    """It copies, or is about to."""
    left: bool = False
    """Its lanes are at rest."""
    exit_code: int | None = None
    detail: str = ""
    beat: int = 0


ORDERS = JsonRecord(RunOrders, "orders of a run", codec=Codec(lenient=True))


def orders_in(value: bytes | None) -> RunOrders:
    """Parsed orders; none for a missing or malformed value."""
    try:
        return ORDERS.loads(value or b"")
    except ValueError:
        return RunOrders()


REPORT = JsonRecord(DriverReport, "report of a driver", codec=Codec(lenient=True))
_DEFINITION = JsonRecord(RunDefinition, "definition of a run", codec=Codec(lenient=True))


def dumps_definition(definition: RunDefinition) -> bytes:
    """The compressed definition: producers refuse records above a megabyte before their own compression."""
    return zlib.compress(_DEFINITION.dumps(definition), 9)


def loads_definition(value: bytes) -> RunDefinition:
    """Raises HandoverError."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(value, MOST_DEFINITION_BYTES)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise ValueError(f"it is cut, or unpacks to more than {MOST_DEFINITION_BYTES} bytes")
        return _DEFINITION.loads(text)
    except (ValueError, zlib.error) as error:
        raise HandoverError(f"The definition of this run in the status topic cannot be read: {error}.") from None


@dataclass(frozen=True, slots=True)
class RunAddress:
    """Command-line argument of a submitted driver. Secrets are references, as in every hand-over."""

    status: StatusPlace
    run: str
    digest: str

    def dumps(self) -> str:
        """One word without a character that a shell or a launch script of the cluster reads in its own way."""
        return base64.urlsafe_b64encode(json.dumps(CODEC.encoded(self), separators=(",", ":")).encode()).decode()


def loads_address(word: str) -> RunAddress:
    """Raises HandoverError."""
    try:
        return CODEC.decoded(RunAddress, parsed(base64.urlsafe_b64decode(word.encode())))
    except (ValueError, MalformedError) as error:
        raise HandoverError(f"--run is not what a submitter writes: {error}.") from None

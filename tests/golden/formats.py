"""What a release keeps on clusters and machines, and how this one reads it; ``make freeze`` writes the next copy.

The frozen copy is ``release/``: run it on the commit that gets a version's tag, so that every commit after reads what
that version wrote. Between two releases it stays as it is.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.positions import decode as decode_position
from reconciler_mirror.lane.positions import encode as encode_position

from reconciler.backends.files import read_environment
from reconciler.backends.mirror_jobs.runner.supervisor import Supervision
from reconciler.backends.state import environment_records
from reconciler.engine.plan import file as planfile
from reconciler.environment.load import load
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.model.state import (
    cutover_journal,
    home,
    last_apply,
    last_drill,
    left_by_apply,
    lock,
    mirror_control,
    rejoin_journal,
    rollout_progress,
)
from reconciler.render.cutover import PLAN_FILE
from reconciler.replication import status
from reconciler.replication.offsets import codec
from reconciler.replication.records import pauses
from reconciler.replication.runs import driver_records
from reconciler.resources.mirrors.handover import handovers
from tests.support.paths import ROOT

RELEASE = Path(__file__).parent / "release"
RECORDS = RELEASE / "records.json"
CUTOVER = RELEASE / "cutover-plan.json"
PLACE = ("east.orders", 3)
SCOPE = pauses.Scope("f")


@dataclass(frozen=True)
class Format:
    """``read`` and ``write``: of JSON. ``kind``: of what an example with all fields is made for the next frozen copy;
    None: the frozen one is written again."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    kind: type | None = None


def _as_bytes(loads: Callable[[bytes], Any], dumps: Callable[[Any], bytes], kind: type | None = None) -> Format:
    return Format(lambda given: loads(json.dumps(given).encode()), lambda value: json.loads(dumps(value)), kind)


def _rows(topic: Any) -> Format:
    return _as_bytes(topic.entry_of, lambda entry: topic.value_of(*entry))


def _control(record: mirror_control.ControlRecord[Any], kind: type) -> Format:
    return _as_bytes(lambda value: record.loads(value, {}), record.dumps, kind)


def _written_position(position: LanePosition) -> dict[str, Any]:
    return {"offset": position.offset, "metadata": encode_position(PLACE, position)}


def _written_chunk(chunk: Any) -> dict[str, str]:
    key, value = codec.encode(*chunk)
    return {"key": key.decode(), "value": value.hex()}


_POSITION: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (
    lambda given: decode_position(PLACE, given["offset"], given["metadata"]),
    _written_position,
)
_DEFINITION, _ORDERS, _REPORT = driver_records._DEFINITION, driver_records.ORDERS, driver_records.REPORT
"""The first without its packing."""
FORMATS: Mapping[str, Format] = {
    "applied": _as_bytes(last_apply.loads, last_apply.dumps),
    "lock": _as_bytes(lock.loads, lock.dumps),
    "lock_stolen": _as_bytes(lock.loads, lock.dumps),
    "rollout": _as_bytes(rollout_progress.loads, rollout_progress.dumps),
    "journal": _as_bytes(environment_records.JOURNAL.loads, environment_records.JOURNAL.dumps),
    "owned": _rows(environment_records.OWNED),
    "pending": _rows(environment_records.PENDING),
    "pending_not_ours": _rows(environment_records.PENDING),
    "quota": _rows(environment_records.QUOTAS),
    "user": _rows(environment_records.USERS),
    "pause": _as_bytes(lambda value: pauses.loads(SCOPE, value), pauses.dumps),
    "left": _as_bytes(left_by_apply.loads, left_by_apply.dumps),
    "status": _as_bytes(status.loads, lambda record: json.dumps(status.document(record)).encode(), status.StatusRecord),
    "desired": _control(mirror_control.DESIRED, mirror_control.DesiredMirror),
    "lease": _control(mirror_control.LEASE, mirror_control.HostLease),
    "presence": _control(mirror_control.PRESENCE, mirror_control.HostPresence),
    "position": Format(*_POSITION, LanePosition),
    "position_of_another_client": Format(*_POSITION),
    "offset_map": Format(
        lambda given: codec.decode(given["key"].encode(), bytes.fromhex(given["value"])), _written_chunk
    ),
    "home": _as_bytes(home.loads, home.dumps, home.Home),
    "drill": _as_bytes(last_drill.loads, last_drill.dumps, last_drill.LastDrill),
    "cutover": _as_bytes(cutover_journal.loads, cutover_journal.dumps, cutover_journal.CutoverJournal),
    "rejoin": _as_bytes(rejoin_journal.loads, rejoin_journal.dumps, rejoin_journal.RejoinJournal),
    "run_definition": _as_bytes(_DEFINITION.loads, _DEFINITION.dumps, driver_records.RunDefinition),
    "run_orders": _as_bytes(_ORDERS.loads, _ORDERS.dumps, driver_records.RunOrders),
    "run_report": _as_bytes(_REPORT.loads, _REPORT.dumps, driver_records.DriverReport),
    "supervisor": Format(lambda given: Supervision(**given), asdict, Supervision),
}


def example(hint: Any, name: str = "x") -> Any:
    """A value of a type with nothing left out: each field of a class, one entry of each collection."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return example(next(each for each in inner if each is not type(None)), name)
    if origin is Literal:
        return inner[-1]
    if origin in (tuple, frozenset):
        return origin(example(each, name) for each in inner if each is not Ellipsis)
    if origin is not None and issubclass(origin, Mapping):
        return {name: example(inner[1], name)} if inner != (str, Any) else {}
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{field.name: example(hints[field.name], field.name) for field in fields(hint)})  # type: ignore[operator]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    return {str: name, int: 7, float: 1.5, bool: True, bytes: b"x"}[hint]


def frozen(was: Mapping[str, Any]) -> dict[str, Any]:
    """The records as this commit writes them."""
    return {
        name: each.write(each.read(was[name]) if each.kind is None else example(each.kind))
        for name, each in FORMATS.items()
    }


def main() -> None:
    was = json.loads(RECORDS.read_text("utf-8"))
    RECORDS.write_text(json.dumps(frozen(was), indent=2, ensure_ascii=False) + "\n", "utf-8")
    plan = RELEASE / "plan.json"
    plan.write_text(planfile.dumps(planfile.loads(plan.read_text("utf-8"))), "utf-8")
    CUTOVER.write_text(PLAN_FILE.dumps(example(CutoverPlan)), "utf-8")
    for path in RELEASE.glob("*.handovers.json"):
        name = path.name.removesuffix(".handovers.json")
        folder = next(place / name for place in (ROOT / "environments", RELEASE) if (place / name).is_dir())
        texts = handovers(load(read_environment(folder), name))
        path.write_text(json.dumps(texts, indent=1, sort_keys=True) + "\n", "utf-8")
    (RELEASE / "status.schema.json").write_bytes((ROOT / "schemas" / "status.schema.json").read_bytes())


if __name__ == "__main__":
    main()

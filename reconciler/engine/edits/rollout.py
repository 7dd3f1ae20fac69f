"""What an edit changes in the rollout: waves, soak, gates."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.engine.edits.fields import NOT_SET
from reconciler.errors import Where
from reconciler.model.changes import Risk
from reconciler.model.config_values import human
from reconciler.model.environment.rollout import Course, Gates
from reconciler.model.reports.edit import FieldChange, ItemChange, Sign

MEANS = "the order of the next apply; nothing on a cluster changes by itself"


def rollout_items(was: Course | None, now: Course | None, where: Where) -> Iterator[ItemChange]:
    """``where``: of the section that is there now, or that is gone."""
    place = where.line_words
    if was is None and now is not None:
        fields = tuple(FieldChange(path, NOT_SET, value) for path, value in _leaves(now).items())
        yield ItemChange(Sign.ADDED, "rollout", "of the environment", place, MEANS, fields)
    elif was is not None and now is None:
        means = "apply does everything in one go from now on, without gates"
        yield ItemChange(Sign.REMOVED, "rollout", "of the environment", place, means)
    elif was is not None and now is not None and was != now:
        old, new = _leaves(was), _leaves(now)
        fields = tuple(
            FieldChange(path, old.get(path, NOT_SET), new.get(path, NOT_SET), means=MEANS, risk=Risk.LOW)
            for path in dict.fromkeys((*old, *new))
            if old.get(path) != new.get(path)
        )
        yield ItemChange(Sign.CHANGED, "rollout", "of the environment", place, fields=fields)


def _leaves(course: Course) -> dict[str, str]:
    leaves = {"waves": ", then ".join(course.names)}
    for wave in course.waves:
        leaves[f"waves.{wave.name}.clusters"] = ", ".join(wave.clusters)
        leaves[f"waves.{wave.name}.soak"] = _duration(wave.soak_ms)
    return leaves | {f"gates.{name}": text for name, text in _gates(course.gates).items()}


def _gates(gates: Gates) -> dict[str, str]:
    return {
        "offline_partitions": str(gates.offline_partitions),
        "under_replicated_partitions": str(gates.under_replicated_partitions),
        "lag": "ignored" if gates.lag_ms is None else _duration(gates.lag_ms),
        "mirrors": gates.mirrors.value,
        "wait": _duration(gates.wait_ms),
    }


def _duration(milliseconds: int) -> str:
    return human("soak.ms", str(milliseconds)) if milliseconds else "0s"

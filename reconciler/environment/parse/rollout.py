"""Parses the ``rollout`` section."""

from __future__ import annotations

from reconciler.environment.parse.values import Wrong
from reconciler.environment.yaml.entry import Reading
from reconciler.environment.yaml.locations import Places
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence
from reconciler.errors import Problem
from reconciler.model.environment.rollout import Gates, MirrorGate, Rollout, RolloutWave
from reconciler.text import duration_ms, sentence

IGNORED = "ignored"


def build_rollout(reading: Reading) -> Rollout | None:
    """None for an empty section."""
    root = reading.node()
    if not isinstance(root, YamlMapping) or not root.entries:
        return None
    waves = _waves(reading)
    if not waves:
        where = reading.place.where
        todo = "Add waves: a list such as [{name: canary, regions: [eu-west]}, {name: rest, regions: [us-east]}]"
        why = "Without waves nobody knows which region comes first"
        reading.problems.append(Problem("missing-field", where, "rollout lacks the field waves", why, todo))
    soak = _duration(reading, ("soak",), reading.node("soak"), 0) or 0
    return Rollout(waves, soak, _gates(reading), reading.place.where)


def half_read_rollout(places: Places) -> Rollout | None:
    """The names in a section that cannot be built, so that what is wrong with them is told at once with the rest."""
    place = places.entries.get(("rollout", "rollout"))
    if place is None:
        return None
    reading = Reading("rollout", "rollout", place)
    waves = _waves(reading)
    return Rollout(waves) if waves else None


def _waves(reading: Reading) -> tuple[RolloutWave, ...]:
    node = reading.node("waves")
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(_wave(reading, index, item) for index, item in enumerate(items))


def _wave(reading: Reading, index: int, item: Node) -> RolloutWave:
    fields = item.entries if isinstance(item, YamlMapping) else {}
    by_name = {name: entry.value for name, entry in fields.items()}
    name = by_name.get("name")
    return RolloutWave(
        str(name.data) if name is not None else "",
        _texts(by_name.get("regions")),
        _texts(by_name.get("clusters")),
        _duration(reading, ("waves", index, "soak"), by_name.get("soak"), None),
        reading.place.document.where(item),
    )


def _gates(reading: Reading) -> Gates:
    standard = Gates()
    lag = reading.value("gates", "lag", default=None)
    return Gates(
        reading.value("gates", "offline_partitions", default=standard.offline_partitions),
        reading.value("gates", "under_replicated_partitions", default=standard.under_replicated_partitions),
        None if lag == IGNORED else _duration(reading, ("gates", "lag"), reading.node("gates", "lag"), standard.lag_ms),
        MirrorGate(reading.value("gates", "mirrors", default=standard.mirrors.value)),
        _duration(reading, ("gates", "wait"), reading.node("gates", "wait"), standard.wait_ms) or 0,
    )


def _duration(reading: Reading, path: tuple[str | int, ...], node: Node | None, default: int | None) -> int | None:
    """The schema has seen to the unit; a number may still be beyond what can be held."""
    if node is None:
        return default
    try:
        return duration_ms(str(node.data))
    except ValueError as error:
        lstrip = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        problem = f"{lstrip} is {node.data}"
        reading.wrong(path, Wrong("bad-duration", problem, "It cannot be waited for", sentence(error)))
        return default


def _texts(node: Node | None) -> tuple[str, ...]:
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(item.text for item in items if isinstance(item, Scalar))

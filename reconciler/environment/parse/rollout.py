"""The ``rollout`` section, from YAML to a noun.

Border: as ``building``: one entry, with its shape already seen to.
"""

from __future__ import annotations

from reconciler.errors import Problem
from reconciler.places import Places
from reconciler.reading import Reading
from reconciler.rollouts import Gates, MirrorGate, Rollout, RolloutWave
from reconciler.settings import Wrong
from reconciler.sizes import duration_ms
from reconciler.yaml_nodes import Mapping as YamlMapping
from reconciler.yaml_nodes import Node, Scalar, Sequence

IGNORED = "ignored"


def build_rollout(reading: Reading) -> Rollout | None:
    """None for an empty section."""
    root = reading.node()
    if not isinstance(root, YamlMapping) or not root.entries:
        return None
    waves = reading.node("waves")
    items = waves.items if isinstance(waves, Sequence) else ()
    if not items:
        where = reading.place.where
        todo = "Add waves: a list such as [{name: canary, regions: [eu-west]}, {name: rest, regions: [us-east]}]"
        why = "Without waves nobody knows which region comes first"
        reading.problems.append(Problem("missing-field", where, "rollout lacks the field waves", why, todo))
    built = tuple(_wave(reading, index, item) for index, item in enumerate(items))
    soak = _duration(reading, ("soak",), reading.node("soak"), 0) or 0
    return Rollout(built, soak, _gates(reading), reading.place.where)


def half_read_rollout(places: Places) -> Rollout | None:
    """The names in a section that cannot be built, so that what is wrong with them is told at once with the rest."""
    place = places.entries.get(("rollout", "rollout"))
    if place is None:
        return None
    reading = Reading("rollout", "rollout", place)
    waves = reading.node("waves")
    items = waves.items if isinstance(waves, Sequence) else ()
    return Rollout(tuple(_wave(reading, index, item) for index, item in enumerate(items))) if items else None


def _wave(reading: Reading, index: int, item: Node) -> RolloutWave:
    fields = item.entries if isinstance(item, YamlMapping) else {}
    found = {name: entry.value for name, entry in fields.items()}
    name = found.get("name")
    return RolloutWave(
        str(name.data) if name is not None else "",
        _texts(found.get("regions")),
        _texts(found.get("clusters")),
        _duration(reading, ("waves", index, "soak"), found.get("soak"), None),
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
        told = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        todo = str(error)
        wrong = Wrong("bad-duration", f"{told} is {node.data}", "It cannot be waited for", todo[0].upper() + todo[1:])
        reading.wrong(path, wrong)
        return default


def _texts(node: Node | None) -> tuple[str, ...]:
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(item.text for item in items if isinstance(item, Scalar))

"""The JSON of connectors on a Connect cluster, as it takes and gives them.

Border: a JSON text in, connectors out. What they become together is ``connectors``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from reconciler.errors import Where
from reconciler.mirrormaker.connectors import CHECKPOINT, HEARTBEAT, KAFKA, SOURCE, Connector, Connectors
from reconciler.mirrormaker.properties import Mistake, Property


def is_json(text: str) -> bool:
    """No property of MirrorMaker 2 begins like this."""
    return text.lstrip()[:1] in ("{", "[")


def read(file: str, text: str, made: Connectors) -> Iterator[Connector]:
    try:
        whole = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        words = f"it begins like JSON and is none: {error.msg}. A connector's configuration is JSON. Correct it."
        made.mistakes.append(Mistake(Where(file, error.lineno, error.colno), words))
        return
    at, before = 0, len(made.mistakes)
    found = []
    for name, config in _configs(whole, ""):
        connector, at = _connector(name, config, (file, text, at), made)
        found += [connector] if connector is not None else []
    if not found and len(made.mistakes) == before:
        words = f"no connector of MirrorMaker 2 is in it. A {SOURCE} copies. Name the file with its configuration."
        made.mistakes.append(Mistake(Where(file), words))
    yield from found


class _Pairs(list[tuple[str, object]]):
    """An object of JSON: names in their order, doubles too."""

    def get(self, name: str) -> object:
        return next((value for key, value in reversed(self) if key == name), None)


def _configs(part: object, name: str) -> Iterator[tuple[str, _Pairs]]:
    """As Connect takes and gives them: alone, ``{name, config}``, in lists, or by name (``?expand=info``)."""
    if isinstance(part, _Pairs):
        config, own = part.get("config"), part.get("name")
        if isinstance(config, _Pairs):
            yield (own if isinstance(own, str) else name), config
        elif part.get("connector.class") is not None:
            yield (own if isinstance(own, str) else name), part
        else:
            for key, inner in part:
                yield from _configs(inner, name if key == "info" else key)
    elif isinstance(part, list):
        for inner in part:
            yield from _configs(inner, name)


def _connector(
    name: str, config: _Pairs, place: tuple[str, str, int], made: Connectors
) -> tuple[Connector | None, int]:
    """The connector, and where its text ends at least."""
    file, text, at = place
    kind, settings = str(config.get("connector.class") or "").strip().removeprefix(KAFKA), dict[str, Property]()
    begin = Where(file, text.count("\n", 0, text.find('"connector.class"', at)) + 1, 1)
    if kind not in (SOURCE, CHECKPOINT, HEARTBEAT):
        shown = f"connector {name}" if name else "this connector"
        made.different.append(f"{begin}: {shown} is none of MirrorMaker 2's three and is left out")
        return None, text.find('"connector.class"', at) + 1
    for key, value in config:
        at = max(at, text.find(json.dumps(key, ensure_ascii=False), at))
        where = Where(file, text.count("\n", 0, at) + 1, 1)
        if isinstance(value, list):
            made.mistakes.append(Mistake(where, f"{key}: it is no text. Connect refuses it, too. Correct it."))
        elif value is None:
            made.different.append(f"{where}: {key} is null, which says nothing")
        else:
            if key in settings:
                line = settings[key].where.line
                made.different.append(f"{where}: {key} is written again; line {line} does not count")
            settings[key] = Property(key, str(value).lower() if isinstance(value, bool) else str(value), where)
    flow = tuple(
        settings[f"{side}.cluster.alias"].value.strip() if f"{side}.cluster.alias" in settings else side
        for side in ("source", "target")
    )
    return Connector(name or kind, kind, (flow[0], flow[1]), begin, tuple(settings.values())), at

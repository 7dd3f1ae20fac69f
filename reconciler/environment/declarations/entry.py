"""One YAML entry while it is parsed: values at paths, and the problems noted on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Place, Step, locate
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence, node_at
from reconciler.environment.yaml.schema import subject
from reconciler.errors import Problem
from reconciler.replication.expressions.unfit import flags_of_a_part
from reconciler.text import duration_ms, sentence, size_bytes

MIN_INTERVAL_MS = 100


@dataclass(slots=True)
class Reading:
    """One entry being read. Each method returns a value that fits its type, also after a problem, so that all problems
    of the entry are found. ``problems`` grows; the entry is usable if it stayed empty."""

    section: str
    name: str
    place: Place
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: tuple[Step, ...], wrong: Wrong) -> None:
        where = self.place.document.where(locate(self.place.entry, path))
        description = f"{subject((self.section, self.name))}: {wrong.what}"
        self.problems.append(Problem(wrong.code, where, description, wrong.why, wrong.todo))

    def node(self, *path: Step) -> Node | None:
        """The node at a path, or None if it is not written."""
        return node_at(self.place.entry.value, *path)

    def value(self, *path: Step, default: Any) -> Any:
        """The plain value at a path. The schema has seen to its type, except in an entry with problems."""
        node = self.node(*path)
        if node is None:
            return default
        data = node.data
        return int(data) if isinstance(data, float) and data.is_integer() else data

    def quantity(self, *path: str, default: int, read: Callable[[str], int]) -> int:
        """``read``: ``size_bytes`` or ``duration_ms``."""
        text = self.value(*path, default=None)
        if text is None:
            return default
        try:
            return read(str(text))
        except ValueError as error:
            code, why = ("bad-size", "It is not a size") if read is size_bytes else ("bad-duration", "It is not a time")
            self.wrong(path, Wrong(code, f'{".".join(path)} is "{text}"', why, sentence(error)))
        return default

    def interval(self, *path: str, default: int) -> int:
        """Milliseconds between two refreshes or reports."""
        milliseconds = self.quantity(*path, default=default, read=duration_ms)
        if milliseconds < MIN_INTERVAL_MS:
            problem = f"{'.'.join(path)} is {self.value(*path, default=None)}"
            why = "Shorter intervals cost more than they show"
            self.wrong(path, Wrong("out-of-range", problem, why, "Write 100ms or more"))
        return milliseconds

    def texts(self, *path: Step, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        node = self.node(*path)
        if not isinstance(node, Sequence):
            return default
        return tuple([item.text for item in node.items if isinstance(item, Scalar)])

    def expressions(self, *path: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Like ``texts``, for expressions. A list becomes one expression, in which flags can only apply to a part
        (``(?i:...)``), so flags of a single expression are rewritten in this form."""
        texts = self.texts(*path, default=default)
        return (flags_of_a_part(texts[0]),) if len(texts) == 1 else texts

    def mapping(self, *path: str, each: Callable[[str, Node], str | Wrong]) -> Mapping[str, str]:
        node = self.node(*path)
        texts: dict[str, str] = {}
        if isinstance(node, YamlMapping):
            for key, entry in node.entries.items():
                if isinstance(entry.value, Scalar) and entry.value.data is None:
                    continue  # the schema has said so
                value = each(key, entry.value)
                if isinstance(value, Wrong):
                    self.wrong((*path, key), value)
                else:
                    texts[key] = value
        return MappingProxyType(texts)

"""All entries of an environment's documents by section and name; reports names defined twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType

from reconciler.environment.yaml.locations import Place, Places
from reconciler.environment.yaml.nodes import Document, Entry, Node, Scalar, Sequence
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.schema import SECTIONS
from reconciler.errors import Problem

NUMBERED = ("access", "quotas", "users", "webhooks")


def collect(documents: Iterable[Document]) -> tuple[Places, list[Problem]]:
    """Every entry under its section and name; a name defined again is a problem, and the first one counts."""
    entries: dict[tuple[str, str], Place] = {}
    problems: list[Problem] = []
    complete = True
    numbers = {section: count(1) for section in NUMBERED}
    for document in documents:
        if not isinstance(document.root, YamlMapping):  # what it declares is unknown, so no name counts as undeclared
            complete = False
            continue
        for section, (word, read_as) in _READ_AS.items():
            part = document.root.entries.get(section)
            for name, entry in read_as(part) if part else ():
                if section in numbers:
                    name = str(next(numbers[section]))
                place = Place(document, entry)
                first = entries.setdefault((section, name), place)
                if first is not place:
                    problems.append(
                        Problem(
                            "duplicate-name",
                            place.where,
                            f"{word} {name} is defined again" if word else f"{name} is defined again",
                            f"It is already defined at {first.where}, and only one of them can take effect",
                            _todo(section, place.where.file, first.where.file),
                        )
                    )
    return Places(MappingProxyType(entries), complete), problems


def _todo(section: str, file: str, other: str) -> str:
    folders = dict.fromkeys(each.rpartition("/")[0] for each in (other, file))
    if section == "clusters" and len(folders) > 1:  # as where the folder above several environments was given
        return f"Remove one, or merge the two. If {' and '.join(folders)} are two environments, name one of them"
    return "Remove one, or merge the two"


def _named(part: Entry) -> Iterator[tuple[str, Entry]]:
    if isinstance(part.value, YamlMapping):
        yield from part.value.entries.items()


def _single(part: Entry, kind: type[Node] = YamlMapping) -> Iterator[tuple[str, Entry]]:
    """A section that is one thing, or one value, under its own name."""
    if isinstance(part.value, kind):
        yield part.key, part


def _texts(part: Entry) -> Iterator[tuple[str, Entry]]:
    """A list of texts, each under itself."""
    if isinstance(part.value, Sequence):
        for item in part.value.items:
            if isinstance(item, Scalar):
                yield item.text, Entry(item.text, item, item.line, item.column)


def _numbered(part: Entry) -> Iterator[tuple[str, Entry]]:
    """Access rules, quotas, users and webhooks, numbered over all files: several may be of one name."""
    if isinstance(part.value, Sequence):
        for item in part.value.items:
            yield "", Entry("", item, item.line, item.column)


def _listed(part: Entry) -> Iterator[tuple[str, Entry]]:
    """Tombstones, each under the name of its cluster and topic: ``east/orders``."""
    if isinstance(part.value, Sequence):
        for item in part.value.items:
            fields = item.entries if isinstance(item, YamlMapping) else {}
            words = [fields[key].value for key in ("cluster", "topic") if key in fields]
            name = "/".join(word.text for word in words if isinstance(word, Scalar))
            name = name if "/" in name else f"line {item.line}"
            yield name, Entry(name, item, item.line, item.column)


def _moves(part: Entry) -> Iterator[tuple[str, Entry]]:
    """Renames, each under what it names now: ``flow orders-to-west``."""
    if isinstance(part.value, Sequence):
        for item in part.value.items:
            fields = item.entries if isinstance(item, YamlMapping) else {}
            kinds = {kind: fields[kind].value for kind in ("flow", "topic", "environment") if kind in fields}
            names = [f"{kind} {value.text}" for kind, value in kinds.items() if isinstance(value, Scalar)]
            name = names[0] if len(names) == 1 else f"line {item.line}"
            yield name, Entry(name, item, item.line, item.column)


_READ_AS: Mapping[str, tuple[str, Callable[[Entry], Iterator[tuple[str, Entry]]]]] = {
    **{section: (word, _named) for section, word in SECTIONS.items()},
    "deletions": ("the deletion of", _listed),
    "moved": ("the move of", _moves),
    "access": ("access rule", _numbered),
    "quotas": ("quota", _numbered),
    "users": ("user", _numbered),
    "webhooks": ("webhook", _numbered),
    "classes": ("class", _named),
    "defaults": ("", _single),
    "shrink_limit": ("", _single),
    "audit": ("", _single),
    "rollout": ("", _single),
    "cutover": ("", _single),
    "docs_url": ("", partial(_single, kind=Scalar)),
    "protected": ("the protection", _texts),
}
"""Section -> the noun of an entry, and how to find entries."""

"""Regular expressions of flows and rules: each is sound, and selects something."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from reconciler.environment.yaml.characters import named
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem, Where
from reconciler.model.environment.topology import Flow
from reconciler.replication.expressions.tree import Every, Form, Item, Negated, Plain, Some, flat, form_of
from reconciler.replication.expressions.unfit import unfit
from reconciler.replication.policy import EXCLUDED_TOPICS, TopicSelector
from reconciler.resources.flows.names import automata
from reconciler.resources.flows.names.carried import selector_for
from reconciler.resources.flows.names.policy_rules import Hops, internal
from reconciler.resources.flows.names.regex import pattern

_MOST_STATES = 3_000
"""Limit for a hint: an expression that needs more states for its first name is not reported as matching none."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SETS_AND_COUNTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[0-9]*,[0-9]*\}")


def check_expressions(flows: Iterable[Flow], places: Places) -> Iterator[Problem]:
    """Expressions that cannot be read, match no name, or match only names that another rule holds back."""
    for flow in flows:
        if faults := expression_faults(flow, places):
            yield from faults
            continue
        selector = selector_for(flow) if flow.naming.policy in ("default", "identity") else None
        for field, subject, where, text in _expressions(flow, places):
            if field == "topics" and selector is not None and _travels(text, selector):
                continue
            kind = "config" if field == "sync_topic_configs.exclude" else "topic"
            if field.startswith("groups"):
                if "," in _SETS_AND_COUNTS.sub("", text):
                    description = f'{subject} is "{text}", one expression with a comma in it'
                    why = "It would match groups with a comma in their names, and hardly any has one"
                    todo = "Write several expressions as a list; write [,] for a comma"
                    yield Problem("regex-with-comma", where, description, why, todo)
            elif nothing := barren(text, where, subject, kind):
                yield nothing  # also for exclusions: a typo in one would copy topics that should be excluded
            elif field == "topics":
                target = flow.target if flow.naming.policy == "default" else None
                if held := _held_back(
                    text, flow.exclude_topics, (flow.naming.separator, flow.internal_separator), target
                ):
                    problem = f'{subject} is "{text}", and all it matches is held back by {held[0]}'
                    yield Problem("regex-without-effect", where, problem, held[1], "Correct or remove it")


@lru_cache(maxsize=4096)
def _held_back(
    text: str, exclude: tuple[str, ...], separators: tuple[str, str], target: str | None
) -> tuple[str, str] | None:
    """The rule that leaves nothing of what ``text`` matches, and why. ``separators``: of the naming, and of internal
    topics; ``target``: of a flow with the cycle rule."""
    excluded = [pattern(each) for each in (*EXCLUDED_TOPICS, *exclude)]
    exclusion = automata.Union(tuple(each.language for each in excluded if each.exact))
    rules: list[tuple[automata.Language, str, str]] = [
        (exclusion, "exclude_topics and the built-in exclusions", "Exclusion wins over topics"),
        (internal(separators[1]), "the rule for internal topics", "Internal topics never travel"),
    ]
    if target is not None:
        why = f"Their names say that their records have been on {target}"
        rules.append((Hops(target, separators[0]), "the cycle rule", why))
    # The rules add up: the one that leaves nothing over is named.
    rest: tuple[automata.Language, ...] = (pattern(text).language,)
    for language, rule, why in rules:
        rest = (*rest, automata.Complement(language))
        if _empty(automata.both(*rest)):
            return rule, why
    return None


def _travels(text: str, selector: TopicSelector) -> bool:
    """Whether a literal name, as in long lists, travels: proof that the expression matches, and cheaper than a
    search."""
    name = text.replace("\\.", ".")
    return _NAME.fullmatch(name) is not None and name not in (".", "..") and selector.why_not(name) is None


def barren(text: str, where: Where, subject: str, of: str = "topic") -> Problem | None:
    """A sound expression that matches no legal name, or has a part that does not. ``of``: the kind of names."""
    head, (empty, char) = f'{subject} is "{text}", ', _judged(text)
    alien = f"'{char}'" if char.isascii() else named(char)
    todo = "Write several expressions as a list" if "," in text else "Correct or remove it"
    why = f"{of.capitalize()} names have letters, digits, '.', '_' and '-', and at most 249 of them"
    if empty:
        because = f": none has {alien}" if char else ""
        return Problem("regex-never-matches", where, f"{head}which matches no legal {of} name{because}", why, todo)
    if char:
        problem = f"{head}and the part of it with {alien} matches no legal {of} name"
        return Problem("regex-never-matches", where, problem, why, todo)
    return None


@lru_cache(maxsize=4096)
def _judged(text: str) -> tuple[bool, str]:
    """Whether it matches no name, and a character that no name has: flows repeat the expressions of others."""
    return _empty(pattern(text).language), _alien(form_of(text))


def _alien(form: Form) -> str:
    """A character that no legal name has, although an alternative of the expression requires it."""
    match form:
        case Plain(items):
            return next(filter(None, map(_alien_in, items)), "")
        case Every(parts) | Some(parts):
            return next(filter(None, map(_alien, parts)), "")
        case Negated():
            return ""


def _alien_in(item: Item) -> str:
    """A required character that no topic name can have; empty without one. Searches alternatives and repetitions."""
    kind, value, flags = item
    if kind is sre.LITERAL and chr(value) not in automata.ALPHABET:
        return chr(value)
    inner: Iterable[Any] = ()
    if kind is sre.BRANCH:
        inner = (part for body in value[1] for part in body)
    elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0:
        inner = value[2]
    return next(filter(None, map(_alien_in, flat(inner, flags))), "")


def _expressions(flow: Flow, places: Places) -> Iterator[tuple[str, str, Where, str]]:
    """Every expression of a flow: the list it is in, the words for its place, that place, and the text."""
    lists = {
        "topics": flow.topics,
        "exclude_topics": flow.exclude_topics,
        "sync_topic_configs.exclude": flow.configs.exclude,
        "groups.include": flow.groups.include,
        "groups.exclude": flow.groups.exclude,
    }
    for field, texts in lists.items():
        for index, text in enumerate(texts):
            where = places.of(flow, *field.split("."), index)
            yield field, f"flow {flow.name}: {field}[{index}]", where, text


def expression_faults(flow: Flow, places: Places) -> list[Problem]:
    """Invalid regular expressions, and too expensive ones."""
    return [
        Problem(wrong.code, where, f'{subject} is "{text}", {wrong.what}', wrong.why, wrong.todo)
        for _, subject, where, text in _expressions(flow, places)
        if (wrong := unfit(text))
    ]


def _empty(language: automata.Language) -> bool:
    try:
        return automata.shortest(language, states=_MOST_STATES) is None
    except automata.UndecidedError:
        return False

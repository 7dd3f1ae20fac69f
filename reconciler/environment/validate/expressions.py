"""Are the flows' regular expressions sound, and does each choose something?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from reconciler.backtracking import unfit
from reconciler.errors import Problem, Where
from reconciler.languages import ALPHABET, AnyOf, Language, Not, both
from reconciler.name_rules import Hops, internal
from reconciler.name_search import UndecidedError, shortest
from reconciler.patterns import pattern
from reconciler.places import Places, Step
from reconciler.topology import Flow
from replication.policy import EXCLUDED_TOPICS

_SETS_AND_COUNTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[0-9]*,[0-9]*\}")


def check_expressions(flows: Iterable[Flow], places: Places) -> list[Problem]:
    problems: list[Problem] = []
    for flow in flows:
        problems += expression_faults(flow, places) or [*_without_effect(flow, places), *_exclusions(flow, places)]
    return problems


def barren(text: str, where: Where, subject: str, of: str = "topic") -> Problem | None:
    """An expression without ``fault`` that matches no legal name, or has a part that does not. ``of``: whose names."""
    head = f'{subject} is "{text}", '
    todo = "Write several expressions as a list" if "," in text else "Mend or remove it"
    why = f"{of.capitalize()} names have letters, digits, '.', '_' and '-', and at most 249 of them"
    if _empty(both(pattern(text).language)):
        return Problem("regex-never-matches", where, f"{head}which matches no legal {of} name", why, todo)
    if char := _alien(sre_parser.parse(text)):
        what = f"{head}and the part of it with '{char}' matches no legal {of} name"
        return Problem("regex-never-matches", where, what, why, todo)
    return None


def _alien(items: Iterable[Any]) -> str:
    """A character that no name has, and without which an alternative of the expression cannot match."""
    for kind, value in items:
        found = ""
        if kind is sre.LITERAL and value < 128 and chr(value) not in ALPHABET:
            found = chr(value)
        elif kind is sre.SUBPATTERN:
            found = _alien(value[3])
        elif kind is sre.BRANCH:
            found = next(filter(None, map(_alien, value[1])), "")
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0:
            found = _alien(value[2])
        if found:
            return found
    return ""


def _exclusions(flow: Flow, places: Places) -> Iterable[Problem]:
    """Whoever excludes something that does not exist copies what was to stay."""
    for index, text in enumerate(flow.exclude_topics):
        where = places.find("flows", flow.name, "exclude_topics", index, or_else=flow.where)
        if problem := barren(text, where, f"flow {flow.name}: exclude_topics[{index}]"):
            yield problem
    for index, text in enumerate(flow.configs.exclude):
        where = places.find("flows", flow.name, "sync_topic_configs", "exclude", index, or_else=flow.where)
        if problem := barren(text, where, f"flow {flow.name}: sync_topic_configs.exclude[{index}]", "config"):
            yield problem
    for side, texts in (("include", flow.groups.include), ("exclude", flow.groups.exclude)):
        for index, text in enumerate(texts):
            if "," in _SETS_AND_COUNTS.sub("", text):
                where = places.find("flows", flow.name, "groups", side, index, or_else=flow.where)
                what = f'flow {flow.name}: groups.{side}[{index}] is "{text}", one expression with a comma in it'
                why = "It would match groups with a comma in their names, and hardly any has one"
                todo = "Write several expressions as a list; a comma that is meant is [,]"
                yield Problem("regex-with-comma", where, what, why, todo)


def expression_faults(flow: Flow, places: Places) -> list[Problem]:
    """What is no regular expression at all, or one that nobody can wait for."""
    lists: tuple[tuple[tuple[Step, ...], tuple[str, ...]], ...] = (
        (("topics",), flow.topics),
        (("exclude_topics",), flow.exclude_topics),
        (("sync_topic_configs", "exclude"), flow.configs.exclude),
        (("groups", "include"), flow.groups.include),
        (("groups", "exclude"), flow.groups.exclude),
    )
    problems = []
    for path, texts in lists:
        for index, text in enumerate(texts):
            if wrong := unfit(text):
                where = places.find("flows", flow.name, *path, index, or_else=flow.where)
                name = ".".join(map(str, path))
                what = f'flow {flow.name}: {name}[{index}] is "{text}", {wrong.what}'
                problems.append(Problem(wrong.code, where, what, wrong.why, wrong.todo))
    return problems


def _without_effect(flow: Flow, places: Places) -> list[Problem]:
    """Expressions that can never choose a topic, whatever the clusters hold."""
    problems = []
    excluded = [pattern(text) for text in (*EXCLUDED_TOPICS, *flow.exclude_topics)]
    exclusion = AnyOf(tuple(each.language for each in excluded if each.exact))
    refused: list[tuple[Language, str, str]] = [
        (exclusion, "exclude_topics and the built-in exclusions", "Exclusion wins over topics"),
        (internal(flow.naming.separator), "the rule for internal topics", "Internal topics never travel"),
    ]
    if flow.naming.policy == "default":
        cycle = Hops(frozenset({flow.source, flow.target}), flow.naming.separator)
        why = f"Their names say that they have been on {flow.source} or {flow.target}"
        refused.append((cycle, "the cycle rule", why))
    for index, text in enumerate(flow.topics):
        where = places.find("flows", flow.name, "topics", index, or_else=flow.where)
        subject = f"flow {flow.name}: topics[{index}]"
        head = f'{subject} is "{text}", '
        rest: tuple[Language, ...] = (pattern(text).language,)
        if nothing := barren(text, where, subject):
            problems.append(nothing)
            continue
        for language, rule, why in refused:
            rest = (*rest, Not(language))
            if _empty(both(*rest)):
                what = f"{head}and all it matches is held back by {rule}"
                problems.append(Problem("regex-without-effect", where, what, why, "Mend or remove it"))
                break
    return problems


def _empty(language: Language) -> bool:
    try:
        return shortest(language) is None
    except UndecidedError:
        return False

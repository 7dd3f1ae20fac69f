"""Are the flows' regular expressions sound, and does each choose something?"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.errors import Problem
from reconciler.languages import AnyOf, Language, Not, UndecidedError, both, shortest
from reconciler.name_rules import Hops, internal
from reconciler.patterns import fault, pattern
from reconciler.places import Places, Step
from reconciler.topology import Flow
from replication.policy import EXCLUDED_TOPICS


def check_expressions(flows: Iterable[Flow], places: Places) -> list[Problem]:
    problems: list[Problem] = []
    for flow in flows:
        problems += expression_faults(flow, places) or _without_effect(flow, places)
    return problems


def expression_faults(flow: Flow, places: Places) -> list[Problem]:
    """What is no regular expression at all."""
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
            wrong = fault(text)
            if wrong:
                where = places.find("flows", flow.name, *path, index, or_else=flow.where)
                name = ".".join(map(str, path))
                what = f'flow {flow.name}: {name}[{index}] is "{text}", no regular expression: {wrong[0]}'
                problems.append(Problem("bad-regex", where, what, "It cannot be matched with any name", wrong[1]))
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
        head = f'flow {flow.name}: topics[{index}] is "{text}", '
        rest: tuple[Language, ...] = (pattern(text).language,)
        if _empty(both(*rest)):
            todo = "Write several expressions as a list" if "," in text else "Mend or remove it"
            why = "Topic names have letters, digits, '.', '_' and '-', and at most 249 of them"
            problems.append(
                Problem("regex-never-matches", where, f"{head}which matches no legal topic name", why, todo)
            )
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

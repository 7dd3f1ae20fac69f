"""The verdict in words: the headline of `status` and of the live page, its reasons with their remedies, and its
JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from reconciler.errors import ExitCode
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.replication.names import runbook_of, runbooks_of
from reconciler.text import counted

MOST_CAUSES = 40
"""In text; JSON has all."""


def check_code(health: Health) -> ExitCode:
    """The exit code of ``status --check``: 2 needs a look, 3 is a requested pause."""
    match health:
        case Health.OK:
            return ExitCode.DONE
        case Health.UNKNOWN:
            return ExitCode.ERROR
        case Health.STOPPED | Health.DEGRADED:
            return ExitCode.CHANGES
        case Health.PAUSED:
            return ExitCode.BLOCKED
        case _:
            assert_never(health)


def headline(verdict: Verdict, figures: str) -> str:
    """``STOPPED: flow orders: record_refused on orders-0, and 2 more; 1 of 1 mirror running; ...``."""
    if not verdict.causes:
        return f"{Health.OK}: {figures}"
    return f"{verdict.health}: {brief_words(verdict)}; {figures}"


def brief_words(verdict: Verdict) -> str:
    """The worst cause, which may be in several places, and the number of the others."""
    # A condition of many partitions is one cause for a reader: counted, so that it does not hide the other causes.
    first = verdict.causes[0]
    alike = Counter(map(_kind, verdict.causes))
    same = alike[_kind(first)]
    words = first.brief
    if same > 1:
        words = f"{first.subject}: {_kind(first)[2]} in {same:,} places"
    others = len(alike) - 1
    return f"{words}, and {others:,} more" if others else words


def _kind(cause: VerdictCause) -> tuple[Health, str, str]:
    paused = "paused" if cause.health is Health.PAUSED else ""
    return cause.health, cause.subject, cause.code or paused or cause.brief


def cause_lines(verdict: Verdict, docs_url: str) -> Iterator[str]:
    """Each reason with its remedy, then the runbooks of their conditions, each once."""
    if not verdict.causes:
        return
    yield "what to do"
    for cause in verdict.causes[:MOST_CAUSES]:
        yield f"  {cause.health:<9}{cause_words(cause)}"
    if (more := len(verdict.causes) - MOST_CAUSES) > 0:
        yield f"  and {counted(more, 'more reason')}: reconciler status ENV --format json"
    for page in runbooks_of((cause.code for cause in verdict.causes if cause.code), docs_url):
        yield f"  runbook: {page if docs_url else f'{page} of the project; docs_url makes it a link'}"


def cause_words(cause: VerdictCause) -> str:
    place = f" {cause.place}" if cause.place else ""
    # A pause names its subject first.
    head = "" if cause.text.startswith(cause.subject) else f"{cause.subject}{place}: "
    return f"{head}{cause.text}." + (f" {cause.todo}" if cause.todo else "")


def verdict_value(verdict: Verdict, docs_url: str) -> Mapping[str, Any]:
    """For JSON: ``health`` of schemas/status-report.schema.json."""
    causes = []
    for cause in verdict.causes:
        value = {"state": cause.health.value, "subject": cause.subject, "text": cause.text, "todo": cause.todo}
        place = {"topic": cause.topic or None, "partition": cause.partition, "code": cause.code or None}
        causes.append(
            {**value, "heals": cause.heals}
            | {name: known for name, known in place.items() if known is not None}
            | ({"runbook": runbook_of(cause.code, docs_url)} if cause.code else {})
        )
    return {"state": verdict.health.value, "causes": causes}

"""Notices of webhooks: which ones a command or a round of ``run`` has for them, and their text in each format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from reconciler.engine.loop import Round
from reconciler.engine.plan.summary import applied_verdict
from reconciler.errors import ExitCode
from reconciler.model.environment.hooks import Notice, NoticeEvent, WebhookFormat
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.health import Health, Verdict
from reconciler.render.markup import report_json
from reconciler.render.reports.drift import drift_verdict
from reconciler.render.reports.status import brief_words, cause_words
from reconciler.text import counted

MOST_DETAILS = 10
MOST_CHARACTERS = 400
"""Of one line: a webhook's reader looks for what it is about; the command has the rest."""


def of_apply(plan: Plan, outcomes: Sequence[Outcome], code: ExitCode) -> tuple[Notice, ...]:
    """Nothing where nothing was to be done."""
    if not outcomes:
        return ()
    failed = [f"{it.id}: {it.error}" if it.error else it.id for it in outcomes if it.result is not Result.DONE]
    done = [it.id for it in outcomes if it.result is Result.DONE]
    state = "done" if code is ExitCode.DONE else "partial" if done else "failed"
    return (_notice(NoticeEvent.APPLY, plan, state, applied_verdict(plan, outcomes), failed or done),)


def of_drift(plan: Plan, subjects: Sequence[str], code: ExitCode | int) -> tuple[Notice, ...]:
    """``subjects``: what differs. Nothing where clusters are as git declares."""
    if code == ExitCode.DONE:
        return ()
    state = "unknown" if code == ExitCode.ERROR else "drift"
    unknown = [f"{each.subject}: {each.error}" for each in plan.unknown]
    return (_notice(NoticeEvent.DRIFT, plan, state, drift_verdict(plan), [*unknown, *subjects]),)


@dataclass(frozen=True, slots=True)
class Noticed:
    """Last notices of a loop: the state, stopped subjects, and waiting changes."""

    health: Health = Health.OK
    stopped: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


def of_round(
    before: Noticed, current: Round, verdict: Verdict | None, environment: str
) -> tuple[tuple[Notice, ...], Noticed]:
    """Notices of a round for changes since the last one, so that each state gives one notice, for any duration."""
    if current.plan is None or current.error:
        failed = Notice(NoticeEvent.VERDICT, environment, Health.UNKNOWN.value, "a round of run failed")
        failed = replace(failed, details=_lines([current.error]))
        news = () if before.health is Health.UNKNOWN else (failed,)
        return news, replace(before, health=Health.UNKNOWN)
    plan, after, notices = current.plan, before, list[Notice]()
    if current.outcomes:
        code = ExitCode.DONE if all(it.result is Result.DONE for it in current.outcomes) else ExitCode.PARTIAL
        notices += of_apply(plan, current.outcomes, code)
    done = {it.id for it in current.outcomes if it.result is Result.DONE}
    waiting = frozenset(planned.id for planned in plan.changes) - done
    if waiting - before.waiting and not current.outcomes:
        words = f"{counted(len(waiting), 'change')} pending"
        notices.append(_notice(NoticeEvent.DRIFT, plan, "drift", words, sorted(waiting)))
    if verdict is not None:
        stopped = frozenset(
            f"{it.subject} {it.place} {it.code}" for it in verdict.causes if it.health is Health.STOPPED
        )
        if verdict.health is not before.health or stopped - before.stopped:
            words = brief_words(verdict) if verdict.causes else "all mirrors copy"
            causes = [cause_words(cause) for cause in verdict.causes]
            notices.append(_notice(NoticeEvent.VERDICT, plan, verdict.health.value, words, causes))
        after = replace(after, health=verdict.health, stopped=stopped)
    return tuple(notices), replace(after, waiting=waiting)


def _notice(event: NoticeEvent, plan: Plan, state: str, title: str, details: Sequence[str]) -> Notice:
    return Notice(event, plan.basis.environment, state, title, _lines(details))


def _lines(details: Sequence[str]) -> tuple[str, ...]:
    lines = [" ".join(line.split()) for line in details[:MOST_DETAILS]]
    lines = [line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…" for line in lines]
    if (more := len(details) - MOST_DETAILS) > 0:
        lines.append(f"and {more:,} more")
    return tuple(lines)


def body(notice: Notice, form: WebhookFormat) -> bytes:
    """What is posted, JSON in UTF-8: schemas/reports/notice.schema.json, a message of Slack's incoming webhooks, or an
    Adaptive Card as the workflows of Teams take it."""
    head = f"{notice.environment}: {notice.event} {notice.state}"
    match form:
        case WebhookFormat.JSON:
            fields = {"event": notice.event.value, "state": notice.state, "title": notice.title}
            return report_json("notice", notice.environment, **fields, details=notice.details).encode()
        case WebhookFormat.SLACK:
            lines = (f"*{_slack(head)}*", _slack(notice.title), *(f"• {_slack(line)}" for line in notice.details))
            return _json({"text": "\n".join(lines)})
        case WebhookFormat.TEAMS:
            blocks = [{"weight": "Bolder", "text": _teams(head)}, *({"text": _teams(it)} for it in notice.details)]
            blocks.insert(1, {"text": _teams(notice.title)})
            card = {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [{"type": "TextBlock", "wrap": True, **block} for block in blocks],
            }
            attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
            return _json({"type": "message", "attachments": [attachment]})
        case _:
            assert_never(form)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _slack(text: str) -> str:
    """Slack reads ``<...>`` as links and mentions such as ``<!channel>``; no other mark notifies anyone."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(text: str) -> str:
    """An Adaptive Card reads a part of Markdown: names of topics hold its signs, and a link must not be made up."""
    return "".join(f"\\{char}" if char in "\\*_[]()`" else char for char in text)

"""Errors that people see (what is wrong, why it matters, what to do), and the exit codes of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from reconciler.text import counted

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a text file. ``line`` and ``column`` count from 1; 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def line_words(self) -> str:
        """``topics.yaml:12``; empty without a line."""
        return f"{self.file}:{self.line}" if self.line else ""


NOWHERE = Where("(built in)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding in a topology file. ``code`` is stable (``unknown-field``) and listed in tests/golden/messages.md."""

    code: str
    where: Where
    what: str
    why: str
    todo: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.why}. {self.todo}."


class ReconcilerError(Exception):
    """Base of all our errors. ``exit_code``: with which the CLI ends (docs: exit codes)."""

    exit_code = 1

    def __init__(self, problem: str, why: str = "", todo: str = "") -> None:
        super().__init__(problem)
        self.what = problem
        self.why = why
        self.todo = todo

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.todo) if part)


class TopologyError(ReconcilerError):
    """Every problem of an environment's files at once, in file and line order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        count = len(problems)
        super().__init__(f"{counted(count, 'problem')} in the topology")
        self.problems = tuple(sorted(problems, key=lambda p: (p.where.file, p.where.line, p.where.column, p.code)))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.problems), self.what])


class SecretError(ReconcilerError):
    """A ``${env:NAME}`` or ``${file:PATH}`` reference that cannot be resolved. Never carries the secret itself."""


class ClusterError(ReconcilerError):
    """A cluster did not answer or refused. ``kind`` is one of the words in ``KINDS``."""

    KINDS = (
        "unreachable", "denied", "authentication", "identity", "quota", "invalid", "exists", "missing", "withheld",
        "other",
    )  # fmt: skip

    def __init__(self, cluster: str, kind: str, problem: str, why: str = "", todo: str = "") -> None:
        super().__init__(problem, why, todo)
        self.cluster = cluster
        self.kind = kind


class RunnerError(ReconcilerError):
    """The Spark mirror job could not be started, found or stopped."""


class BlockedError(ReconcilerError):
    """A guard or policy forbids it."""

    exit_code = 3


_PARTS = 4
_MOVED = 20
"""The most parts of a subject, and subjects, that a message names; there may be thousands."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One observed subject that differs from the saved plan."""

    subject: str
    before: str
    after: str

    def __str__(self) -> str:
        """Common parts are left out; an object that appeared or vanished is only named."""
        was, now = self.before.split(", "), self.after.split(", ")
        if len(was) == 1 or len(now) == 1:
            return f"{self.subject}: was {_shortened(was)}, is {_shortened(now)}"
        before, after = ([part for part in side if part not in other] for side, other in ((was, now), (now, was)))
        return f"{self.subject}: was {', '.join(before) or 'not set'}, is {', '.join(after) or 'not set'}"


def _shortened(parts: list[str]) -> str:
    more = len(parts) - _PARTS
    return ", ".join(parts[:_PARTS]) + (f" and {more} more" if more > 0 else "")


class StalePlan(ReconcilerError):  # noqa: N818 - says what happened
    """The world has changed since a saved plan. ``moved``: the exact differences."""

    exit_code = 4

    def __init__(self, moved: tuple[Moved, ...], subject: str = "the saved plan is stale") -> None:
        lines = [f"  {topic}" for topic in moved[:_MOVED]]
        if len(moved) > _MOVED:
            lines.append(f"  and {len(moved) - _MOVED} more")
        super().__init__(subject, "\n".join(lines), "Run plan again and review the new plan.")
        self.moved = moved


class LockHeld(ReconcilerError):  # noqa: N818 - says what happened
    """Another run holds the environment's lock."""

    exit_code = 6


@dataclass(frozen=True, slots=True)
class Unknown:
    """A read that failed: never the same as an empty answer."""

    subject: str
    error: str
    todo: str = ""
    detail: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, subject: str, error: ReconcilerError) -> Unknown:
        """With why it matters, which ``or_unknown`` leaves out."""
        return cls(subject, ". ".join(part for part in (error.what, error.why) if part), error.todo)

    @property
    def words(self) -> str:
        """Names the subject once."""
        return self.error if self.error.startswith(f"{self.subject} ") else f"{self.subject}: {self.error}"

    @property
    def with_todo(self) -> str:
        """The problem and its remedy, as an obstacle or in place of a value."""
        return f"{self.error}. {self.todo}".rstrip()

    @property
    def what(self) -> str:
        """The problem without its reason: equal for everything that one cause leaves unknown."""
        return self.error.partition(". ")[0]


def or_unknown(
    subject: str, ask: Callable[[], Answer], failing: type[ReconcilerError] = ReconcilerError
) -> Answer | Unknown:
    """The answer of ``ask``; Unknown ``subject`` for an error of the kind ``failing``."""
    try:
        return ask()
    except failing as error:
        return Unknown(subject, error.what, error.todo)


def or_unknown_why(subject: str, ask: Callable[[], Answer]) -> Answer | Unknown:
    """As ``or_unknown``, with why it matters."""
    try:
        return ask()
    except ReconcilerError as error:
        return Unknown.of(subject, error)


def known(answer: Answer | Unknown, why: str) -> Answer:
    """The answer. Raises ReconcilerError if it is unknown; ``why`` that matters."""
    if isinstance(answer, Unknown):
        raise ReconcilerError(answer.error, why, answer.todo)
    return answer


class ExitCode(IntEnum):
    DONE = 0
    ERROR = 1
    CHANGES = 2
    BLOCKED = 3
    STALE = 4
    PARTIAL = 5
    LOCKED = 6

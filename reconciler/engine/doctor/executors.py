"""Doctor checks of executors, as each of them looked at its own machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.engine.doctor.check import Check
from reconciler.errors import RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.reports.doctor import ExecutorLook, Finding
from reconciler.text import counted

NAME = "executors"
_WHY = "a lane on it would not run, or not reach a cluster"
_TODO = "Mend it on that machine, or keep the mirror off it (docs/mirror/spark-clusters.md)"


def executor_findings(mirror: Mirror, looks: Sequence[ExecutorLook] | RunnerError | Unknown) -> Iterator[Finding]:
    """``looks``: of those that got a task; an error where the application failed; Unknown where none answered."""
    check = Check(f"mirror {mirror.name}", NAME)
    if isinstance(looks, Unknown):
        yield check.unread(looks)
    elif isinstance(looks, RunnerError):
        yield check.problem(f"{looks.what}. {looks.why}", "the mirror would not run there either", looks.todo)
    else:
        problems = [problem for look in looks for problem in look.problems]
        for problem in dict.fromkeys(problems):
            yield check.problem(problem, _WHY, _TODO)
        fit = [look for look in looks if not look.problems]
        if fit:
            machines = ", ".join(sorted({f"{look.host} (Python {look.python})" for look in fit}))
            yield check.ok(f"{counted(len(fit), 'executor')} on {machines}: packages, secrets, brokers, channel")

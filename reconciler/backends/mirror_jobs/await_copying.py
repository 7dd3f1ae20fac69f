"""After a mirror's job reports itself running: waits, for a bounded time, until its flows copy or say why they do not.

A job that runs may still copy nothing: its target lacks what lanes need, its principal lacks rights, it crashes again
and again. A flow that only waits (for a pause, a silent source, provenance) is reported and fails nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.copying import Copying, FlowLook, look
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.names import runbook_of
from reconciler.text import first_of

AT_MOST_S = 20.0
"""A lane reports within seconds; one that failed tries again meanwhile, and may succeed."""
LOOK_S = 0.5
SHOWN = 3


@dataclass(frozen=True, slots=True)
class CopyWait:
    """``observe``: as ``MirrorRunner``. ``clock`` and ``sleep`` are the system's."""

    observe: Callable[[str], LiveMirror]
    progress: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    at_most_s: float = field(default=AT_MOST_S)

    def until_copying(self, started: LiveMirror) -> LiveMirror:
        """The mirror once every flow of it copies, or may. Raises RunnerError: it was started, and does not copy."""
        mirror, began, seen = started.name, self.clock(), started
        lines, unread = WaitLines(self.progress, clock=self.clock), ""
        while True:
            looks = tuple(map(look, seen.flows.values()))
            runs = seen.state is JobState.RUNNING
            if runs and all(each.copying is Copying.YES for each in looks):
                for each in looks:
                    if each.why:
                        self.progress(f"mirror {mirror}: {each.words}. {each.todo}")
                return seen
            over = self.clock() - began > self.at_most_s
            if over and unread:
                self.progress(f"mirror {mirror}: whether it copies is not known: {unread}")
                return started
            if over and not runs:
                raise _ended(seen)
            if over:
                return self._settled(seen, looks)
            waiting = [each.words for each in looks if each.copying is not Copying.YES]
            lines.show(f"mirror {mirror}: {first_of(waiting, SHOWN) if runs else f'it is {seen.state}: {seen.detail}'}")
            self.sleep(LOOK_S)
            try:
                seen, unread = self.observe(mirror), ""
            except (ClusterError, RunnerError) as error:
                unread = error.what

    def _settled(self, seen: LiveMirror, looks: tuple[FlowLook, ...]) -> LiveMirror:
        """Raises RunnerError."""
        if failed := [each for each in looks if each.copying is Copying.NO]:
            raise _does_not_copy(seen.name, failed)
        for each in looks:
            if each.copying is not Copying.YES:
                self.progress(f"mirror {seen.name}: whether flow {each.flow} copies is not known yet; {each.words}")
        return seen


def _does_not_copy(mirror: str, failed: list[FlowLook]) -> RunnerError:
    return RunnerError(
        f"mirror {mirror} was started, but does not copy: {first_of([each.words for each in failed], SHOWN)}",
        "\n".join(_runbooks(failed)),
        "\n".join(dict.fromkeys(each.todo for each in failed if each.todo)),
    )


def _runbooks(failed: list[FlowLook]) -> Iterator[str]:
    yield "Its job goes on trying; reconciler status ENV shows its state."
    yield from dict.fromkeys(f"Runbook: {runbook_of(each.code)}" for each in failed)


def _ended(seen: LiveMirror) -> RunnerError:
    return RunnerError(
        f"mirror {seen.name} was started, but does not copy: its job is {seen.state}"
        f"{': ' if seen.detail else ''}{seen.detail}",
        "It ran for a moment and ended; it is started again until it is stopped.",
        "Fix what its log says, then run apply again. To stop it: reconciler mirror stop ENV.",
    )

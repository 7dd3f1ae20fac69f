"""That a cluster has no core for the comparison is said after half a minute, and once."""

from __future__ import annotations

from reconciler_mirror.jobs.verify_job import CoreWait


def test_no_core_is_said_once_and_again_only_after_there_was_one() -> None:
    now = [100.0]
    wait = CoreWait(lambda: now[0])
    said = []
    for tasks, stages in [(0, 0), (0, 1), (0, 1), (0, 1), (2, 1), (0, 1), (0, 1)]:
        said.append(bool(wait.look(tasks, stages)))
        now[0] += 31.0
    assert said == [False, False, True, False, False, False, True]

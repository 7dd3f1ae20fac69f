"""Entry script of verify: ``verify_job.py --handover FILE --request FILE --run-dir DIR --caller PID -- OPTIONS``.

Writes ``result.json`` into the run directory, and progress on standard output: each line ``verify: ...`` replaces the
one before, except for ``verify: warning: ...``.
Exit codes: 0 the result is written, with or without differences; 1 failed, with one paragraph on standard error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.replication.handover import FlowSettings, HandoverError, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.kept_files import read_json, read_kept, write_json
from reconciler.replication.runs.verification import REQUEST_CODEC, WARNING, VerifyRequest
from reconciler_mirror import log_lines as logs
from reconciler_mirror.jobs.application import failed, in_words, waited_for, with_defaults
from reconciler_mirror.verify import report
from reconciler_mirror.verify.bounds import Bounds, bounds_of, sampled
from reconciler_mirror.verify.model import PartitionRange, TimeWindow, Unread
from reconciler_mirror.verify.report import writers_of
from reconciler_mirror.verify.resuming import ProgressFile, ReadSoFar
from reconciler_mirror.verify.tasks import KeyCounts

_REPORT_S = 2.0
_NO_CORE_S = 30.0
_SETTLED_S = 2.0
"""Seconds before a rate is shown: over a shorter time it would jump."""


class ReadProgress:
    """``total``: offsets of both sides of all partitions; an earlier run has compared ``before`` of them. The clock
    starts now."""

    def __init__(self, total: int, before: int) -> None:
        self._total, self._before = total, before
        self._began = time.monotonic()

    def words(self, done: int) -> str:
        """``1,200 of 3,400 offsets read, 600/s, about 4 s left``; empty before the first and after the last. ``done``:
        offsets read so far."""
        seconds = time.monotonic() - self._began
        if not self._before < done < self._total:
            return ""
        text = f"{done:,} of {self._total:,} offsets read"
        if seconds < _SETTLED_S:
            return text
        rate = (done - self._before) / seconds
        left_s = (self._total - done) / rate
        left = f"{left_s:.0f} s" if left_s < 120 else f"{left_s / 60:.0f} min"
        return f"{text}, {rate:,.0f}/s, about {left} left"


def main(arguments: list[str]) -> int:
    """Returns the exit code. Positions and ends are read, and small partitions compared, while Spark starts, which
    takes some seconds: most comparisons of small topics are over by then."""
    about = "Proves both sides of a mirror equal."
    given = waited_for("verify_job.py", about, "flows, window and topic traits", arguments)
    try:
        settings = parse(read_kept(given.handover))
        request = REQUEST_CODEC.decoded(VerifyRequest, read_json(given.request))
        flows = [flow for flow in settings.flows if flow.name in request.flows]
        for flow in flows:
            flow.selector()
    except (HandoverError, OSError, ValueError, KeyError) as error:
        return _failed(f"{type(error).__name__}: {error}")
    logs.configure(environment=settings.environment, mirror=settings.mirror)
    kept = ProgressFile(Path(request.progress), {flow.name: flow.fingerprint for flow in flows})
    started = threading.Event()
    with ThreadPoolExecutor(1) as beside:  # the comparison begins while Spark starts
        begins = beside.submit(_begun, flows, request, kept, started.is_set)
        try:
            session = _session(settings)
        except Exception as error:  # noqa: BLE001  # Py4J hands on whatever the JVM throws
            return _failed(f"Spark did not start: {in_words(error)}")
        finally:
            started.set()
    try:
        result = _prove(session, begins.result(), request)
        write_json(given.run_dir / "result.json", result)
    except Exception as error:  # noqa: BLE001
        return _failed(f"the comparison broke off: {in_words(error)}")
    finally:
        session.stop()
    return 0


@dataclass(frozen=True, slots=True)
class ComparisonBegun:
    """A comparison and its progress; ``keep`` saves the progress for ``--resume``."""

    bounds: Bounds
    so_far: ReadSoFar
    keep: Callable[[], None]


def _begun(
    flows: Sequence[FlowSettings], request: VerifyRequest, kept: ProgressFile, over: Callable[[], bool]
) -> ComparisonBegun:
    """Begins the comparison while Spark starts. Saves its progress in ``request.progress`` for ``--resume``; if that
    fails, the comparison continues with a warning."""
    bounds, sample = _bounds(flows, request), request.sample
    ranges = [plan if sample is None else sampled(plan, sample) for plan in bounds.ranges]
    earlier = kept.earlier(ranges) if request.resume else {}
    so_far = ReadSoFar(ranges, earlier)
    again = f"; compared in part by an earlier run: {len(earlier)}" if request.resume else ""
    _say(f"partitions to compare: {len(ranges)}; not readable: {len(bounds.unread)}{again}")

    def keep() -> None:
        try:
            kept.keep(ranges, so_far.readings)
        except OSError as error:
            _say(f"{WARNING}what is compared cannot be kept for --resume: {error.strerror or error}")

    with _progress(so_far):
        so_far.read_here(over)
    keep()
    return ComparisonBegun(bounds, so_far, keep)


def _prove(session: Any, begun: ComparisonBegun, request: VerifyRequest) -> dict[str, Any]:
    """Reads the rest of both sides, counts, and locates differences; returns the document for ``result.json``. Asks for
    the writers of different records only if there are any."""
    from reconciler_mirror.verify.dataframes import DataFrameComparison

    ranges, read = begun.so_far.plans.values(), begun.so_far.readings
    compared = DataFrameComparison(session, begun.so_far, begun.keep)
    try:
        with _progress(begun.so_far, session):
            compared.read()
            counts = compared.counts()
            located = compared.locate([c.suspect for c in counts.values() if c.suspect is not None])
            if request.parquet:
                compared.write_chunks(request.parquet)
    finally:
        compared.close()
    # With all counts known, each difference is named by its first record. The writers are asked for last and only once:
    # that reads the target again.
    differences = {
        plan.index: report.differences_of(plan, read.get(plan.index), located.get(plan.index)) for plan in ranges
    }
    writers = writers_of((plan, differences[plan.index][0]) for plan in ranges if differences[plan.index])
    fields = [
        report.partition(
            plan,
            read.get(plan.index),
            counts.get(plan.index, KeyCounts()),
            located.get(plan.index),
            writers.get(plan.index),
        )
        for plan in ranges
    ]
    fields += [report.unread(unread) for unread in begun.bounds.unread]
    return report.document(session.sparkContext.applicationId, fields, read.values(), request.sample)


def _bounds(flows: Sequence[FlowSettings], request: VerifyRequest) -> Bounds:
    """Asks each flow's clusters for begin and end. Partitions are numbered over all flows, to identify the rows that
    Spark returns."""
    ranges: list[PartitionRange] = []
    unread: list[Unread] = []
    window = TimeWindow(request.from_ms, request.to_ms)
    for flow in flows:
        _say(f"flow {flow.name}: reading positions and ends")
        bounds = bounds_of(flow, window, request.topics, len(ranges))
        ranges += bounds.ranges
        unread += bounds.unread
    return Bounds(tuple(ranges), tuple(unread))


def _session(settings: MirrorSettings) -> Any:
    """A SparkSession. In UTC, or the times in the chunk table would depend on the machine; with few shuffle partitions,
    because Spark's default of 200 costs more than it saves for what is left to shuffle: keys."""
    from pyspark.sql import SparkSession

    own = {"spark.app.name": f"verify {settings.environment}/{settings.mirror}", "spark.sql.session.timeZone": "UTC"}
    conf = with_defaults(own, {"spark.sql.shuffle.partitions": str(max(4, 2 * settings.parallelism))})
    return SparkSession.builder.config(conf=conf).getOrCreate()


class CoreWait:
    """Notices that Spark gives tasks no core; ``look`` is to be called every few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since, self._reported = clock, 0.0, False

    def look(self, tasks: int, stages: int) -> str:
        """The text to report, once; otherwise empty. ``tasks``: running and completed tasks of active ``stages``."""
        if tasks or not stages:
            self._since, self._reported = 0.0, False
            return ""
        self._since = self._since or self._clock()
        if self._reported or self._clock() - self._since < _NO_CORE_S:
            return ""
        self._reported = True
        return (
            f"Spark has had no free core for it for {_NO_CORE_S:.0f} s: other applications hold them. It waits on. "
            "Lower spark.cores.max of another application, add a worker, or end this and verify with --master local[2]"
        )


@contextmanager
def _progress(so_far: ReadSoFar, session: Any = None) -> Iterator[None]:
    """Reports every few seconds how much is read, with rate and time left, then how many tasks of the running stage are
    done, and a lack of cores. ``session`` None: Spark has not started yet."""
    # Without a line for minutes, a large comparison looks like a hang, and a stage without cores is one.
    tracker = session and session.sparkContext.statusTracker()
    over, cores = threading.Event(), CoreWait()

    reading = ReadProgress(so_far.total_offsets, so_far.offsets_read)

    def watch() -> None:
        """Reports changed progress every ``_REPORT_S`` seconds: by offsets while they are read, since a number of tasks
        would say little about bytes, and by Spark's tasks afterwards."""
        last_line = ""
        while not over.wait(_REPORT_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()] if tracker else []
            known = [stage for stage in stages if stage is not None]
            if waiting := cores.look(sum(item.numActiveTasks + item.numCompletedTasks for item in known), len(known)):
                _say(f"{WARNING}{waiting}")
            done, every = sum(item.numCompletedTasks for item in known), sum(item.numTasks for item in known)
            tasks = f"{done} of {every} tasks done" if known else ""
            step = "reading" if so_far.offsets_read < so_far.total_offsets else "comparing"
            line = reading.words(so_far.offsets_read) or (tasks and f"{step}: {tasks}")
            if line and line != last_line:
                last_line = line
                _say(line)

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5.0)


def _say(text: str) -> None:
    sys.stdout.write(f"verify: {text}\n")
    sys.stdout.flush()


def _failed(text: str) -> int:
    return failed(f"The comparison cannot run: {text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

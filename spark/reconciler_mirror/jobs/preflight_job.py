"""Checks executors: ``preflight_job.py --handover FILE --request FILE --run-dir DIR --caller PID -- OPTIONS``.

Writes ``result.json`` into the run directory. Exit codes: 0 the result is written, with or without problems; 1 failed,
with one paragraph on standard error.
"""

import contextlib
import sys
import threading
from typing import Any

from reconciler.replication.handover import HandoverError, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.kept_files import read_kept, write_json
from reconciler_mirror.jobs.application import failed, in_words, waited_for, with_defaults
from reconciler_mirror.leases import preflight
from reconciler_mirror.leases.channel_listener import Listener, listen_for_tasks


def main(arguments: list[str]) -> int:
    """Returns the exit code. The port of the control channel is opened as the mirror would open it, since whether
    executors reach it is part of the check."""
    given = waited_for("preflight_job.py", "Checks the executors of a mirror.", "an empty object", arguments)
    try:
        settings = parse(read_kept(given.handover))
        context = _context(settings)
    except (HandoverError, OSError) as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001  # Py4J hands on whatever the JVM throws
        return _failed(f"Spark did not start: {in_words(error)}")
    try:
        listener = listen_for_tasks(settings.channel, context.getConf().get("spark.driver.host"), context)
        threading.Thread(target=_accept, args=(listener,), name="channel", daemon=True).start()
        rows = _look(context, settings, listener)
        write_json(given.run_dir / "result.json", {"application_id": context.applicationId, "executors": rows})
    except HandoverError as error:
        return _failed(str(error))
    except Exception as error:  # noqa: BLE001
        return _failed(in_words(error))
    finally:
        context.stop()
    return 0


def _context(settings: MirrorSettings) -> Any:
    """A context that waits up to 20 s until all executors have registered, so that each is checked, and that repeats no
    task: a second try on another executor would hide the unfit one."""
    from pyspark import SparkContext

    own = {"spark.app.name": f"doctor {settings.environment}/{settings.mirror}", "spark.task.maxFailures": "1"}
    all_executors = {
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "20s",
    }
    return SparkContext.getOrCreate(with_defaults(own, all_executors))


def _look(context: Any, settings: MirrorSettings, listener: Listener) -> list[dict[str, Any]]:
    """One row for each executor with a task. There are as many simultaneous tasks as the mirror has leases."""
    sides = {side.cluster: side for flow in settings.flows for side in (flow.source, flow.target)}
    sides[settings.status.cluster.cluster] = settings.status.cluster
    address = (listener.advertised, listener.socket.getsockname()[1])
    given = preflight.packed(address, (tuple(sides.values()), preflight.installed()))
    count = settings.parallelism
    answers = context.parallelize([given] * count, count).mapPartitions(preflight.checked_packages).collect()
    by_folder = {folder: rest for folder, *rest in answers}
    names = ("host", "python", "versions", "problems")
    return [dict(zip(names, rest, strict=True)) for _, rest in sorted(by_folder.items())]


def _accept(listener: Listener) -> None:
    """Accepts and closes connections: the check only needs to know that the port is reachable."""
    while True:
        with contextlib.suppress(OSError):
            connection, _ = listener.socket.accept()
            connection.close()


def _failed(text: str) -> int:
    return failed(f"The executors cannot be looked at: {text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Submits a driver in deploy mode cluster and follows it: ``follow_driver.py --run-dir DIR -- SPARK-SUBMIT WORDS``.

A supervisor starts it in place of spark-submit; exit codes are those of ``mirror_job.py`` in client mode. If it is
killed, the driver continues to copy, and the next follower follows that driver.
"""

import argparse
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from reconciler.replication.handover import HandoverError, StatusPlace
from reconciler.replication.handover_reader import parse
from reconciler.replication.runs.driver_records import RunAddress
from reconciler.replication.runs.run_folders import place_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.cluster_mode.follow import FAILED, Folder, Follower, Submission, kill
from reconciler_mirror.cluster_mode.record_run import RunTopic


def main(arguments: list[str]) -> int:
    """Returns the exit code. A signal is passed on to the driver as a wish to stop, through its records: the follower
    itself must stay until the driver has committed and left."""
    parser = argparse.ArgumentParser(prog="follow_driver.py", description="Submits a driver and follows it.")
    parser.add_argument("--run-dir", type=Path, required=True, help="the folder with handover.json")
    parser.add_argument("words", nargs="+", help="a spark-submit command line in deploy mode cluster")
    given = parser.parse_args(arguments)
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    try:
        folder = Folder(place_of(given.run_dir))
        settings = parse(folder.definition().handover)
    except HandoverError as error:
        _say(f"The mirror job cannot run: {error}")
        return FAILED
    logs.configure(environment=settings.environment, mirror=settings.mirror)
    topic = RunTopic(settings.status).start()
    try:
        return Follower(folder, topic, _Spark(given.words, settings.status), _say, asked.is_set).run()
    finally:
        topic.close()


@dataclass(frozen=True, slots=True)
class _Spark:
    """``DriverCluster`` by spark-submit."""

    words: list[str]
    status: StatusPlace

    def submit(self, run: str, digest: str) -> Submission:
        return Submission(self.words, run, RunAddress(self.status, run, digest).dumps(), _say)

    def kill(self, run: str, application_id: str) -> None:
        kill(self.words, run, application_id, _say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

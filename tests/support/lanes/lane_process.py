"""A process that runs one lane until it is killed.

``python -m tests.support.lanes.lane_process <pickled LaneSpec> [classic]``.

Prints a line for each report, so that the test knows that the lane is at work.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from reconciler_mirror import log_lines as logs
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneProgress, LaneSpec, PartitionSpec

from reconciler.kafka.client import transactions
from tests.support.lanes.lane_spec import ClaimedControl


class Forever(ClaimedControl):
    def __init__(self, lane: LaneSpec) -> None:
        self._lane = lane

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self._lane.partitions

    def report(self, progress: LaneProgress) -> None:
        sys.stdout.write(f"{sum(p.records for p in progress.partitions)} {progress.transactions}\n")
        sys.stdout.flush()


def main() -> None:
    logs.configure(environment="test", mirror="lane")  # on standard error: the test reads what is on standard output
    lane = pickle.loads(Path(sys.argv[1]).read_bytes())
    if "classic" in sys.argv:
        transactions.speaks_version_2 = lambda connection: False
    batch_path(lane, Forever(lane))


if __name__ == "__main__":
    main()

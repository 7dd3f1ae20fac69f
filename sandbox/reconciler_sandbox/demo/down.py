"""``make down``: stops the mirror jobs of ``environments/sandbox`` on this machine.

They are found by their run folders alone, so that this works without clusters, too. The brokers stop afterwards, so
that an open transaction can still be committed.
"""

from __future__ import annotations

import sys

from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import ReconcilerError
from reconciler_sandbox.demo.copy_environment import COMMITTED


def main() -> int:
    folder = state_folder(COMMITTED)
    runner = SparkRunner(folder, {}, lambda _: None)
    try:
        for run in sorted(path for path in folder.glob("*") if path.is_dir()):
            runner.stop(run.name, print)
    except ReconcilerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

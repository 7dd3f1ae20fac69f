"""spark-submit in deploy mode cluster: its process, the meaning of its output, and killing an application.

The process lives as long as Spark's client watches the application; its end does not end the application.
"""

import contextlib
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from reconciler.replication.runs.driver_records import NO_DEFINITION

KILL_S = 20.0
"""Seconds that a kill command may take."""
_YARN_ID = re.compile(r"\b(application_[0-9]+_[0-9]+)\b")
_EXIT_STATUS = re.compile(r"exited with (?:status |exitCode: )?([0-9]+)")
_EXCEPTION = re.compile(r"Exception in thread \"main\" [\w.$]+: (.+)")
_LONGEST_REASON = 400
_DRIVER_POD = "spark.kubernetes.driver.pod.name"
_LONGEST_POD = 63
"""Most characters of a name in Kubernetes (RFC 1123 label)."""

Say = Callable[[str], None]


def setting(words: Sequence[str], name: str, default: str = "") -> str:
    """The value of ``--conf NAME=VALUE``; the last one counts, as in Spark."""
    values = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    return values[-1] if values else default


def option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words[:-1] else ""


class Submission:
    """One run of ``words``, a spark-submit command line that ends with the job's own arguments. ``run``: name of the
    started driver. Passes the output on."""

    def __init__(self, words: Sequence[str], run: str, address: str, say: Say) -> None:
        """Starts spark-submit with a pipe for both outputs. A separate thread empties the pipe: spark-submit may run as
        long as the application, and a full pipe would block it."""
        self._say = say
        self.application_id = ""
        self._status: int | None = None
        self._exception = ""
        self._process = subprocess.Popen(
            [*with_run(words, run), "--run", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def ended(self) -> int | None:
        """The exit code, once all output has been passed on; None while the process runs."""
        code = self._process.poll()
        if code is not None:
            self._reading.join(5.0)
        return code

    def why(self) -> str:
        """The reason why an application ended without a report of its driver, as far as known."""
        logs = f"; its own log says it: yarn logs -applicationId {self.application_id}" if self.application_id else ""
        if self._status == NO_DEFINITION:
            return (
                "the driver could not read its definition from the status topic: the brokers or the secrets of the "
                f"status cluster are not within reach of the machine that Spark chose{logs}"
            )
        if self._exception and not self.application_id:
            return f"spark-submit could not submit it: {self._exception}"
        status = "" if self._status is None else f" with exit code {self._status}"
        lacks = ". It may lack a package, or Python (mirrors.NAME.python)" if self._status == 1 else ""
        return f"the application ended{status} before its driver said why{lacks}{logs}"

    def _read(self, output: IO[str]) -> None:
        """Passes each line on, and keeps facts that only Spark's log has: YARN's application id, the first exception
        (later ones follow from it), and the driver's exit status. ValueError: the pipe was closed meanwhile."""
        with contextlib.suppress(ValueError):
            for line in output:
                self._say(line.rstrip("\n"))
                if not self.application_id and (named := _YARN_ID.search(line)):
                    self.application_id = named.group(1)
                if (failed := _EXCEPTION.match(line)) and not self._exception:
                    self._exception = failed.group(1)[:_LONGEST_REASON]
                if status := _EXIT_STATUS.search(line):
                    self._status = int(status.group(1))


def pod_of(words: Sequence[str], run: str) -> str:
    """The name of the driver's pod on Kubernetes, for killing it."""
    name = re.sub(r"[^a-z0-9-]", "-", option(words, "--name").lower()).strip("-")
    return f"{name[: _LONGEST_POD - len(run) - 8]}-{run}-driver"


def with_run(words: Sequence[str], run: str) -> list[str]:
    """``words`` with settings that name this run, unless the user has set them."""
    master = option(words, "--master")
    own = {}
    if master.startswith("k8s://"):
        own = {_DRIVER_POD: pod_of(words, run)}
    if master == "yarn":
        own = {"spark.yarn.tags": f"mirror-run-{run}"}
    added = [part for key, value in own.items() if not setting(words, key) for part in ("--conf", f"{key}={value}")]
    return [words[0], *added, *words[1:]]


def kill_command(words: Sequence[str], run: str, application_id: str) -> list[str]:
    """The command that kills an application; empty if YARN has not accepted it yet, so that it has no id."""
    master = option(words, "--master")
    if master.startswith("k8s://"):
        pod = setting(words, _DRIVER_POD) or pod_of(words, run)
        namespace = setting(words, "spark.kubernetes.namespace", "default")
        of_kubernetes = [word for word in words if word.startswith("spark.kubernetes.") and "=" in word]
        conf = [part for word in of_kubernetes for part in ("--conf", word)]
        return [words[0], "--master", master, *conf, "--kill", f"{namespace}:{pod}"]
    if not application_id:
        return []
    client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
    return [str(Path(words[0]).parent / "spark-class"), client, "application", "-kill", application_id]


def kill(words: Sequence[str], run: str, application_id: str, say: Say) -> None:
    """Has the resource manager end the application: ``yarn application -kill``, or spark-submit's own ``--kill``. Never
    raises: without its definition record the driver ends by itself, only later."""
    command = kill_command(words, run, application_id)
    if not command:
        say("the application has no id yet, so it cannot be killed; without its definition it ends by itself")
        return
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=KILL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"the application could not be killed: {error}; once it is superseded it ends by itself")
        return
    lines = (done.stdout + done.stderr).strip().splitlines()
    say(f"killed: {lines[-1] if lines else f'exit code {done.returncode}'}")

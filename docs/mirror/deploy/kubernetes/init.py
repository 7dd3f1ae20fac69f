"""Process 1 of a container: runs a command as its child, passes signals on, and reaps what the child's processes leave.

Linux gives process 1 no default actions, so `plan` would ignore SIGTERM, and every process whose parent died is its to
reap. Belongs to entrypoint.sh, which uses it as process 1 alone.
"""

import contextlib
import os
import signal
import sys

_KEPT = {"CHLD", "KILL", "STOP", "TTIN", "TTOU", "PIPE", "SEGV", "FPE", "ILL", "BUS", "ABRT"}


def main() -> int:
    signals = signal.valid_signals() - {getattr(signal, f"SIG{name}") for name in _KEPT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until the child is known
    child = os.fork()
    if child == 0:
        _run(sys.argv[1:])
    for number in signals:
        with contextlib.suppress(OSError):  # those that the C library keeps
            signal.signal(number, lambda got, _: _pass_on(child, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _run(command: list[str]) -> None:
    """In a group of its own, which a terminal's Ctrl-C reaches, so that no signal comes twice."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # no terminal
        os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvp(command[0], command)  # noqa: S606  # the container's own command
    except OSError as error:
        sys.stderr.write(
            f"{command[0]} cannot be run: {error.strerror}. Give a command of this image: reconciler --help\n"
        )
        os._exit(127)


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


if __name__ == "__main__":
    sys.exit(main())

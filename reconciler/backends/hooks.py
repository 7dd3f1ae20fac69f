"""Runs a hook of a cut-over: a program, an HTTP call, or an atomic replacement of a file. It must be listed in this
machine's ``RECONCILER_ALLOW`` (``hook:/opt/hooks/*``, ``hook:https://dns.example.net/*``)."""

import contextlib
import os
import signal
import ssl
import stat
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http.client import HTTPException
from pathlib import Path
from typing import IO, TypeVar

from reconciler.backends.connections.credentials import resolved_each
from reconciler.backends.files import keep_names
from reconciler.errors import BlockedError, ReconcilerError
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.tokens.web import NoRedirect
from reconciler.model.environment.hooks import CutoverHook, HookKind
from reconciler.replication.allowed import VARIABLE, allowed
from reconciler.replication.secret_references import REFERENCE, resolve
from reconciler.text import time_words

Answer = TypeVar("Answer")
MOST_OUTPUT = 4_000
"""Bytes kept from the end of the output."""
_TWICE = "It may still have taken effect. Run the command again: the hook runs again, so it must do no harm twice."


def unlisted(hook: CutoverHook) -> str:
    """The missing word of ``RECONCILER_ALLOW``; empty if the hook may run."""
    return "" if allowed(os.environ).lists("hook", hook.target) else f"hook:{hook.target}"


def run_hook(hook: CutoverHook, facts: Mapping[str, str]) -> str:
    """Returns words for its result. ``facts``: environment variables of a program.

    Raises BlockedError for a hook that may not run, SecretError, and ReconcilerError for a failed hook.
    """
    if word := unlisted(hook):
        raise BlockedError(
            f"the hook {hook.target} is not run: {VARIABLE} does not list it",
            "What the YAML names runs only where this machine allows it, because an edit could name anything.",
            f"Review it, and add {word} to {VARIABLE} where this program runs.",
        )
    # Secrets are resolved after that check, and are known below, so that no output of the hook is shown with one in it.
    raw = {**hook.headers, **{f"argument {n}": text for n, text in enumerate(hook.arguments)}, "text": hook.text}
    values = resolved_each(raw, f"hook {hook.target}, ", "the hook cannot run")
    references = [match.group(0) for text in raw.values() for match in REFERENCE.finditer(text)]
    secrets = [resolve({"": reference}, os.environ, read_secret)[""] for reference in references]
    match hook.kind:
        case HookKind.COMMAND:
            words = _command(hook, [values[f"argument {n}"] for n in range(len(hook.arguments))], facts, secrets)
        case HookKind.HTTP:
            words = _call(hook, {name: values[name] for name in hook.headers}, values["text"], secrets)
        case HookKind.FILE:
            words = _write(hook, values["text"])
    return words


def _command(hook: CutoverHook, arguments: list[str], facts: Mapping[str, str], secrets: list[str]) -> str:
    """Runs the program in a process group of its own, so that a timeout ends its children, too. Only the end of its
    output is kept, without secrets."""
    output, seconds = bytearray(), hook.timeout_ms / 1000
    try:
        process = subprocess.Popen(
            [hook.target, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, **facts},
        )  # fmt: skip
    except OSError as error:
        todo = "Correct the path, or make it executable for this user."
        raise ReconcilerError(f"hook {hook.target} cannot be run: {error.strerror or error}", "", todo) from None
    assert process.stdout is not None
    reading = threading.Thread(target=_keep_last, args=(process.stdout, output), daemon=True)
    reading.start()
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        problem = f"hook {hook.target} has not ended within {time_words(seconds)} and was killed"
        raise ReconcilerError(_with_output(problem, output, secrets), _TWICE, "") from None
    except BaseException:
        _kill(process)
        raise
    reading.join(1)
    if code:
        problem = f"hook {hook.target} ended with {code}"
        todo = "Correct what it says, and run the command again: the hook runs again."
        raise ReconcilerError(_with_output(problem, output, secrets), "Its exit code decides about the step.", todo)
    return _with_output(f"{hook.target} ended with 0", output, secrets)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _keep_last(stream: IO[bytes], output: bytearray) -> None:
    while block := os.read(stream.fileno(), 65_536):
        output += block
        del output[:-MOST_OUTPUT]


def _with_output(problem: str, output: bytes | bytearray, secrets: list[str]) -> str:
    text = bytes(output).decode("utf-8", "replace")
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{problem}: {'; '.join(lines[-5:])}" if lines else problem


def _call(hook: CutoverHook, headers: Mapping[str, str], body: str, secrets: list[str]) -> str:
    """One HTTP request, without redirects: they could lead headers with secrets to another server."""
    data = body.encode() if body else None
    request = urllib.request.Request(hook.target, data, dict(headers), method=hook.method)  # noqa: S310 - listed
    called = f"hook {hook.method} {hook.target}"
    try:
        trusted = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=hook.ca or None))
    except OSError as error:
        problem = f"hook {hook.target}: the authorities in {hook.ca} cannot be read: {error.strerror or error}"
        todo = "Correct ca, or put the file there, in PEM."
        raise ReconcilerError(problem, "Without them the server's certificate cannot be checked.", todo) from None
    seconds = hook.timeout_ms / 1000

    def answered() -> tuple[int, bytes]:
        try:
            with urllib.request.build_opener(NoRedirect, trusted).open(request, timeout=seconds) as answer:
                return answer.status, answer.read(MOST_OUTPUT)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(MOST_OUTPUT)

    try:
        status, output = _within(seconds, answered)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        problem = _with_output(called, f"no answer: {reason}".encode(), secrets)
        raise ReconcilerError(problem, _TWICE, "") from None
    if status != hook.status:
        problem = _with_output(f"{called} answered {status}, expected {hook.status}", output, secrets)
        todo = "Correct what it says, and run the command again: the hook is called again."
        raise ReconcilerError(problem, "Its status decides about the step.", todo)
    return _with_output(f"{hook.method} {hook.target} answered {status}", output, secrets)


def _within(seconds: float, act: Callable[[], Answer]) -> Answer:
    """Limits the total time: a socket's timeout restarts with each byte, so a slow server could delay a cut-over while
    writes are refused. Raises as ``act``, and TimeoutError."""
    ended = Future[Answer]()

    def run() -> None:
        try:
            ended.set_result(act())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            ended.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return ended.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"timed out after {time_words(seconds)}") from None


def _write(hook: CutoverHook, text: str) -> str:
    """Replaces a file atomically, also across a power loss. Keeps its mode; only this user may read a new file."""
    path = Path(hook.target)
    try:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        opened, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(opened, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                file.write(text)
                file.flush()
                os.fchmod(opened, mode)
                os.fsync(opened)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        keep_names(path.parent)
    except OSError as error:
        todo = "Let this user write there, and run the command again."
        raise ReconcilerError(f"hook file {path} cannot be written: {error.strerror or error}", "", todo) from None
    return f"{path} is written"

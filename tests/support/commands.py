"""Commands as a user calls them, and what is left of them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from reconciler_sandbox.handles import Sandbox

from reconciler.model.schemas import schema as schema_of

Write = Callable[..., Path]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Everything a user sees; a traceback is never among it."""
        both = self.out + self.err
        assert "Traceback" not in both, both
        return both


def two_clusters(sandbox: Sandbox, with_ids: bool = True, /, **extra: str) -> str:
    """The ``clusters:`` section for a plain sandbox; ``east=`` and ``west=`` add fields. Its clusters hold topics of
    other tests: only their ids vouch for them."""
    lines = ["clusters:"]
    for name, handle in sandbox.clusters.items():
        vouched = f", cluster_id: {handle.cluster_id}" if with_ids else ""
        lines.append(f"  {name}: {{bootstrap_servers: [{handle.bootstrap_servers}]{vouched}{extra.get(name, '')}}}")
    return "\n".join(lines) + "\n"


WAIT = 60.0


class Running:
    """A ``reconciler run`` and what it logged."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def until(self, event: str, seen: int = 0, **fields: Any) -> dict[str, Any]:
        """The first line of ``event`` after ``seen`` lines that holds ``fields``."""
        give_up = time.monotonic() + WAIT
        while time.monotonic() < give_up:
            for line in self.lines()[seen:]:
                if line["event"] == event and fields.items() <= line.items():
                    return line
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(f"no line {event} {fields}:\n{self.log.read_text()}")

    def ends(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def running(env: Path, *words: str) -> Iterator[Running]:
    log = env.parent / "run.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "reconciler", "run", str(env), *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out)
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


def audit(env: Path) -> list[dict[str, Any]]:
    text = (env.parent / ".reconciler" / env.name / "audit.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines()]
    schema = schema_of("audit")
    for line in found:
        jsonschema.Draft202012Validator(schema).validate(line)
    return found


def commands_of(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """(words, command) of each command in the group, those of its groups too."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", command


def take(command: Any, words: list[str]) -> None:
    """Raises what the program would say. A line with ``...``, and one that names a command alone, is not complete:
    of these only the options are looked at."""
    if words[:1] == ["--install-completion"]:  # of the shell that asks
        return
    while words and hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    if hasattr(command, "commands"):
        return
    if "..." in words or not words:
        known = {option for one in command.params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known
        return
    command.make_context(command.name, words)


_COMMAND = re.compile(r"\breconciler (?=[a-z])")
_WORD = re.compile(r"(?:[a-z][a-z-]*|--[a-z-]+|[A-Z][A-Z_:]*|[\w/.:*'-]*[\w/*']|\0+)(?=[\s.;:,)`'<]|$)")


def commands_in(text: str, program: Any) -> Iterator[list[str]]:
    """The words of each command that a message proposes, with ``1`` for a placeholder and for ``\\0``, where something
    is put in. Prose follows a command as words in lower case."""
    for found in _COMMAND.finditer(text):
        words = _typed(text[found.end() :], program)
        if len(words) > 1 and words[0] in program.commands:
            yield words


def _typed(text: str, program: Any) -> list[str]:
    command, value = program, False
    words: list[str] = []
    for token in text.split(" "):
        found = _WORD.match(token)
        if found is None:
            break
        word, option = found[0], found[0].startswith("--")
        if hasattr(command, "commands"):
            if word not in command.commands:
                break
            command = command.commands[word]
        elif not (option or value) and word.isalpha() and word.islower():
            break
        options = {name: each for each in getattr(command, "params", ()) for name in each.opts}
        words.append("1" if word.isupper() or "\0" in word else word)
        value = option and word in options and not options[word].is_flag
        if found.end() < len(token):  # a full stop, a comma
            break
    return [*words, "1"] if value else words

"""Whatever stands in an environment, and on its clusters: no code runs, nothing outside is read, nothing hangs, and no
output steers a terminal, a browser or CI.

``make test-hostile`` does it 10,000 times with others each time; ``make test`` 40 times, with the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path, PurePosixPath
from types import ModuleType

import git
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reconciler.backends.files import read_readable
from reconciler.backends.repository import Checkout
from reconciler.cli.main import main
from reconciler.engine.edits.compare import compare
from reconciler.engine.explain import explain
from reconciler.engine.topology_map import topology_map
from reconciler.environment.load import load
from reconciler.environment.yaml.locations import Places
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.options import MapFormat
from reconciler.model.plan import Plan
from reconciler.model.principals import AclBinding, Mechanism, Operation, PatternType, Permission, ResourceType, entity
from reconciler.model.reports.edit import Against
from reconciler.render.map.formats import map_in
from reconciler.render.markup import Format
from reconciler.render.plan.formats import Review, render
from reconciler.render.plan.sections import Handoff
from reconciler.render.reports.declared import explanation_text
from reconciler.render.reports.drift import drift_in
from tests.e2e.hostile import watch
from tests.e2e.hostile.folders import RIGHT, HostileEnvironment, HostileFile, hostile_environments
from tests.e2e.hostile.outputs import Page, in_browser, in_comment, in_terminal, page_of
from tests.e2e.hostile.watch import SECONDS, TooLongError, Watched, watched
from tests.e2e.hostile.words import CANARY, shown_text
from tests.support.builders import World, topology
from tests.support.fakes.cluster import FakeCluster
from tests.support.paths import ROOT

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", settings().max_examples))
# What hangs would be tried again and again to make it smaller
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
TODAY = date(2026, 1, 1)
AGAINST = Against("main", "c" * 40)
HANDOFF = Handoff("reconciler apply environments/hostile", "the artifact")
SECRET = "hunter2-canary"
SCRIPTS = ROOT / ".github" / "scripts"
_FOREIGN = re.compile(rf"{SECRET}|root:[x*!$]")
"""Of a variable, of a file beside the repository, or of /etc/passwd and /etc/shadow."""
_ZERO_WIDTH = "\u200b"


def github() -> ModuleType:
    """The script that writes comments, which keeps them instead of sending them."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec = importlib.util.spec_from_file_location("github_comments", SCRIPTS / "github.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(SCRIPTS))


class Repository:
    """A repository with one environment, again and again another one, and what lies beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repo" / "environments" / "hostile"
        self.root = folder / "repo"
        self.outside = folder / "outside" / "x.yaml"
        self.outside.parent.mkdir()
        self.outside.write_text(f"{SECRET}: 1\n")
        self.folder.mkdir(parents=True)
        (self.folder / "topology.yaml").write_text(json.dumps(RIGHT))
        (self.root / "shared").mkdir()
        (self.root / "shared.yaml").write_text("x-shared: 1\n")
        with git.Repo.init(self.root, initial_branch="main") as made:
            made.git.add(A=True)
            made.git.execute(
                ["git", "-c", f"user.name={SECRET}", "-c", "user.email=a@example.com", "commit", "-m", "x"]
            )
            made.create_remote("origin", f"https://x:{SECRET}@git.example/x")
        for ignored in (".env", ".env.yaml"):
            (self.root / ignored).write_text(f"{SECRET}: 1\n")

    def hold(self, environment: HostileEnvironment) -> None:
        self.concerns_git = environment.concerns_git
        shutil.rmtree(self.root / "environments", ignore_errors=True)
        self.folder.mkdir(parents=True)
        environment.write(self.folder, self.outside)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    before = Path.cwd()
    made = Repository(tmp_path_factory.mktemp("hostile"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTILE_SECRET", SECRET)
        patch.setenv("EAST", SECRET)
        patch.setenv("ENVIRONMENT", "hostile")
        patch.setenv("PULL_REQUEST", "1")
        patch.setenv("RECONCILER_STATE", str(made.root.parent / "state"))
        patch.delenv("RECONCILER_ALLOW", raising=False)
        os.chdir(made.root)
        yield made
        os.chdir(before)


class Journey:
    """What CI does with one environment, and what came of it."""

    def __init__(self, repository: Repository, live: World, comments: ModuleType) -> None:
        self.folder = repository.folder
        self.repository = repository
        self.live = live
        self.github = comments
        self.codes: set[int] = set()
        self.terminal: list[str] = []
        self.pages: list[str] = []
        self.comments: list[str] = []
        self.documents: list[str] = []
        self.addresses: list[str] = []

    def run(self) -> None:
        self._cli("validate", str(self.folder))
        self.documents.append(self._cli("validate", str(self.folder), "--format", "json"))
        if self.repository.concerns_git:  # others read the same commits
            self.terminal.append(self._cli("plan", str(self.folder), "--base", "HEAD", "--offline"))
        texts, unread = read_readable(self.folder)
        try:
            topology = load(texts, "hostile", TODAY, unread=unread)
        except TopologyError as error:
            self._render(Review(self._plan(BASE), base_problems=error.problems, against=AGAINST))
            return
        self.addresses += two_in_one(topology)
        self._reviewed(topology)

    def _reviewed(self, topology: Topology) -> None:
        comparison = compare(BASE, topology)
        self._render(Review(None, comparison=comparison, against=AGAINST))
        plan = self._plan(topology)
        live = self.live.look(topology)
        self._render(Review(plan, comparison, AGAINST, drawn=lambda: topology_map(topology, live, plan)))
        for form, kept in self._kept():
            kept.append(drift_in(plan, form))
        for picture in MapFormat:
            text = map_in(topology_map(topology, live, plan), picture)
            places = {MapFormat.HTML: self.pages, MapFormat.SVG: self.pages, MapFormat.JSON: self.documents}
            places.get(picture, self.terminal).append(text)
        for subject in ("east/orders", "east-to-west", "west"):
            with contextlib.suppress(ReconcilerError):
                self.terminal.append(explanation_text(explain(topology, subject, live, Places())))

    def _plan(self, topology: Topology) -> Plan:
        for name in topology.clusters:
            self.live.clusters.setdefault(name, FakeCluster(name))
        return self.live.plan(topology)

    def _kept(self) -> tuple[tuple[Format, list[str]], ...]:
        return (
            (Format.TEXT, self.terminal), (Format.JSON, self.documents), (Format.HTML, self.pages),
            (Format.MARKDOWN, self.comments),
        )  # fmt: skip

    def _render(self, review: Review) -> None:
        for form, kept in self._kept():
            if form is Format.JSON and review.plan is None and review.comparison is None:
                continue
            kept.append(render(review, form, HANDOFF))

    def _cli(self, *words: str) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(words))
            except SystemExit as ended:
                self.codes.add(int(ended.code or 0))
        self.terminal += [out.getvalue(), err.getvalue()]
        self.comments.append(self.github.fenced(err.getvalue(), 32_000))
        return out.getvalue()


BASE = load({"topology.yaml": json.dumps(RIGHT)}, "hostile", TODAY)


def is_unicode(text: str) -> bool:
    """What a broker answers is UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def clusters(words: list[str]) -> World:
    """Clusters on which somebody left these: in configs, access rules, quotas and users."""
    live = World({name: FakeCluster(name) for name in ("east", "west")})
    for index, word in enumerate(words):
        cluster = live.clusters[("east", "west")[index % 2]]
        cluster.put(("orders", "old.x", "pay")[index % 3], 2).overrides.update({"cleanup.policy": word, "x.y": word})
        cluster.acls.add(
            AclBinding(
                ResourceType.GROUP,
                word or "g",
                PatternType.LITERAL,
                f"User:{word}",
                word or "*",
                Operation.READ,
                Permission.ALLOW,
            )
        )
        cluster.quotas[entity({"user": word or "u"})] = {"producer_byte_rate": 1.0}
        cluster.users[word or "u"] = {Mechanism.SHA_512: 4096}
    return live


def two_in_one(topology: Topology) -> Iterator[str]:
    """Addresses that two programs could read differently, by a pattern that no part of the program uses."""
    for cluster in topology.clusters.values():
        for server in cluster.bootstrap_servers:
            if re.fullmatch(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]*", server) is None:
                yield f"an address that may be another one: {server!r}"


def faults(journey: Journey, seen: Watched, usual: Page) -> Iterator[str]:
    yield from seen.touched
    yield from journey.addresses
    if seen.seconds > SECONDS:
        yield f"it took {seen.seconds:.1f} s of CPU"
    if not journey.codes <= {0, 1, 2, 3}:
        yield f"validate or plan ended with {journey.codes}"
    for text in journey.terminal:
        yield from in_terminal(text)
    for text in journey.documents:
        yield from in_terminal(text, document=True)
        if text:
            json.loads(text)
    for text in journey.pages:
        yield from in_terminal(text)
        yield from in_browser(text, usual)
    for text in journey.comments:
        yield from in_terminal(text, invisible=_ZERO_WIDTH)
        yield from in_comment(text)
    for text in (*journey.terminal, *journey.documents, *journey.pages, *journey.comments):
        if found := _FOREIGN.search(text):
            yield f"what is none of its business: {text[max(0, found.start() - 200) :][:400]}"
    if CANARY in {path.name for path in journey.folder.parent.parent.iterdir()}:
        yield "somebody ran it"


@pytest.fixture(scope="module")
def comments() -> ModuleType:
    return github()


@pytest.fixture(scope="module")
def usual(repository: Repository, comments: ModuleType) -> Page:
    """All that a page of a friendly environment has. It also imports what is imported late."""
    pages: list[str] = []
    # With fewer partitions than there are, the map says so in a text that it has to squeeze.
    fewer = {**RIGHT, "topics": {**RIGHT["topics"], "orders": {**RIGHT["topics"]["orders"], "partitions": 1}}}
    for document in (RIGHT, fewer, {key: RIGHT[key] for key in ("clusters", "classes", "topics")}):
        repository.hold(HostileEnvironment((HostileFile(b"topology.yaml", json.dumps(document).encode()),)))
        journey = Journey(repository, clusters(["a", "b", "c"] if "flows" in document else []), comments)
        journey.run()
        assert journey.codes == {0}, journey.terminal
        pages += journey.pages
    journey._cli("plan", str(repository.folder), "--base", "HEAD", "--offline")
    return page_of("".join(pages))


@given(hostile_environments(), st.lists(shown_text.filter(is_unicode), max_size=3))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
def test_no_environment_does_harm(
    repository: Repository, comments: ModuleType, usual: Page, environment: HostileEnvironment, left: list[str]
) -> None:
    repository.hold(environment)
    journey = Journey(repository, clusters(left), comments)
    with watched(repository.root) as seen:
        journey.run()
    found = list(dict.fromkeys(faults(journey, seen, usual)))
    assert found == [], "\n".join(found)


# the watch itself


_UNSEEN = {"files.looks_like_repository": lambda _: False}
OFF: Mapping[str, tuple[HostileFile, Mapping[str, object]]] = {
    "a link out of the repository": (
        HostileFile(b"l.yaml", None, "link to /etc/passwd"),
        {"files._leads_out": lambda *_: None},
    ),
    "a file beside the repository": (HostileFile(b"l.yaml", None, "outside"), {"files._leads_out": lambda *_: None}),
    "a file that git ignores": (
        HostileFile(b"l.yaml", None, "link to ../../.env.yaml"),
        {"files._untracked": lambda *_: {}},
    ),
    "a repository of the edit": (HostileFile(b"more", None, "repository"), _UNSEEN | {"repository._OPTIONS": ()}),
    "one that is opened": (
        HostileFile(b"x", None, "repository around it"),
        _UNSEEN | {"repository._around": lambda way: Checkout(way, PurePosixPath())},
    ),
}
"""What an edit brings, and the guards without which it does harm."""


@pytest.mark.parametrize("name", OFF)
def test_each_kind_of_file_is_seen_where_its_guard_is_off(
    repository: Repository, comments: ModuleType, usual: Page, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else environments that are made up with it would prove nothing."""
    file, guards = OFF[name]
    right = HostileFile(b"topology.yaml", json.dumps(RIGHT).encode())
    found = []
    for off in (False, True):
        for guard, instead in guards.items() if off else ():
            monkeypatch.setattr(f"reconciler.backends.{guard}", instead)
        repository.hold(HostileEnvironment((right, file)))
        journey = Journey(repository, clusters([]), comments)
        with watched(repository.root) as seen:
            journey.run()
        found.append(list(faults(journey, seen, usual)))
    assert found[0] == []
    assert found[1] != []


@pytest.mark.parametrize("server", ["evil:1,east.example:9092", "a@b:1", "a:1/x", "\u0430:1", "a:01", "a"])
def test_an_address_that_is_two_is_found(server: str) -> None:
    assert list(two_in_one(topology(Cluster("east", (server,)))))


@pytest.mark.parametrize(
    "act",
    [
        lambda: Path("/etc/passwd").read_text(),
        lambda: os.listdir("/"),  # noqa: PTH208
        lambda: os.system("true"),
        lambda: subprocess.run(["true"], check=False),
        lambda: socket.socket(),
        lambda: exec(compile(f"x = '{CANARY}'", "<string>", "exec")),
        lambda: Path("made").write_text("x"),
        lambda: importlib.import_module("this"),
    ],
)  # fmt: skip
def test_the_watch_sees(act: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inside").write_text("x")
    sys.modules.pop("this", None)
    with watched(tmp_path) as seen:
        Path("inside").read_text()
        assert (seen.touched, seen.seconds) == ([], 0)
        with contextlib.suppress(ImportError, OSError):
            act()
    assert seen.touched


def test_the_watch_counts_cpu_and_ends_what_takes_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(tmp_path) as seen:
        burn(0.1)
    assert seen.seconds >= 0.1
    monkeypatch.setattr(watch, "SECONDS", 0.1)
    with pytest.raises(TooLongError), watched(tmp_path):
        burn(5.0)


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.parametrize(
    "text",
    ["\x1b[2J", "a\r", "::error::x", "  ##[error]x", "a: ##vso[x]", "a\u202e", "Traceback (most recent call last)"],
)
def test_what_a_terminal_or_ci_obeys_is_found(text: str) -> None:
    assert list(in_terminal(f"a\n{text}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "[a](http://b)",
        "<script>x</script>",
        "@octocat",
        "![a](b)",
        "<details onload=x>",
        "see #1",
        "see !1",
        "www.evil.example",
    ],
)
def test_what_github_obeys_is_found(text: str) -> None:
    assert list(in_comment(f"- a\n- {text}\n"))


@pytest.mark.parametrize(
    "tag", ["<script>x</script>", '<p onclick="x">', '<a href="javascript:x">', "<!-- x -->", "<iframe>"]
)
def test_what_a_browser_obeys_is_found(tag: str) -> None:
    assert list(in_browser(f"<p>{tag}</p>", page_of("<p></p><a href='#x'></a>")))

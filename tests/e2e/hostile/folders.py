"""Environment folders: a right one in which some places hold what they should not, and files that are none."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.e2e.hostile.words import (
    ADDRESSES,
    CANARY,
    CLIENT_SETTINGS,
    DURATIONS,
    EXPRESSIONS,
    FRAGMENTS,
    HOOKS,
    MARKUP,
    MODULES,
    NUMBERS,
    PATHS,
    REFERENCES,
    SPARK_SETTINGS,
    hostile_text,
    shown_text,
)

Document = dict[str, Any]

RIGHT: Document = {
    "clusters": {
        "east": {
            "bootstrap_servers": ["east.example:9092"], "cluster_id": "id-of-east", "region": "eu",
            "client": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a",
            "sasl.password": "${env:EAST}"},
            "defaults": {"partitions": 3, "configs": {"retention.ms": "7d"}},
        },
        "west": {"bootstrap_servers": ["west.example:9092"], "region": "us", "prune": {"topics": ["old.*"]}},
    },
    "topics": {
        "orders": {"clusters": ["east"], "partitions": 6, "labels": {"owner": "shop", "why": "x"},
        "configs": {"cleanup.policy": "compact"}},
        "pay": {"clusters": ["east", "west"], "class": "short"},
    },
    "classes": {"short": {"configs": {"retention.ms": "1d"}}},
    "flows": {
        "east-to-west": {
            "source": "east", "target": "west", "topics": ["orders", "p.*"], "exclude_topics": ["x.*"],
            "labels": {"a": "b"},
            "groups": {"include": ["g.*"], "exclude": ["h"]},
        }
    },
    "mirrors": {"west": {"master": "local[2]", "spark_conf": {"spark.eventLog.enabled": "false"}}},
    "protected": ["pay.*"],
    "access": [
        {"role": "consumer", "principal": "User:app", "clusters": ["east"], "topics": ["orders"], "groups": ["g"],
        "hosts": ["10.0.0.1"]}
    ],
    "quotas": [{"clusters": ["east"], "user": "app", "client_id": "c", "producer_byte_rate": "1MiB"}],
    "users": [{"clusters": ["west"], "name": "app", "version": 1, "password": "${env:APP}"}],
    "deletions": [
        {"topic": "gone", "cluster": "east", "topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "reason": "not used",
        "expires": "2999-01-01"}
    ],
}  # fmt: skip
_OPTIONAL = ("mirrors", "protected", "access", "quotas", "users", "deletions", "flows")
# Places that take nearly any text, and show it again
_SHOWN: tuple[tuple[Any, ...], ...] = (
    ("topics", "orders", "labels", "owner"), ("topics", "orders", "labels", "why"),
    ("flows", "east-to-west", "labels", "a"),
    ("deletions", 0, "reason"), ("access", 0, "principal"), ("quotas", 0, "user"), ("quotas", 0, "client_id"),
    ("users", 0, "name"),
    ("clusters", "east", "region"), ("access", 0, "groups", 0), ("clusters", "east", "cluster_id"),
    ("access", 0, "hosts", 0),
    ("topics", "orders", "configs", "cleanup.policy"), ("mirrors", "west", "spark_conf", "spark.eventLog.enabled"),
    ("topics", "orders", "class"),
)  # fmt: skip
_SPECIAL: tuple[tuple[tuple[Any, ...], Sequence[Any]], ...] = (
    (("flows", "east-to-west", "topics", 0), EXPRESSIONS),
    (("flows", "east-to-west", "exclude_topics", 0), EXPRESSIONS),
    (("flows", "east-to-west", "groups", "include", 0), EXPRESSIONS),
    (("flows", "east-to-west", "where"), [{"key": {"matches": text}} for text in EXPRESSIONS]),
    (("protected", 0), EXPRESSIONS),
    (("deletions", 0, "topic"), ("a" * 60, "a.a" * 60)),
    (("clusters", "west", "prune", "topics", 0), EXPRESSIONS),
    (("flows", "east-to-west", "naming"), [{"policy": module} for module in MODULES]),
    (("clusters", "east", "client", "sasl.password"), REFERENCES),
    (("clusters", "west", "client"), [{"client.id": text} for text in REFERENCES]),
    (("clusters", "west", "bootstrap_servers", 0), (*REFERENCES, *ADDRESSES)),
    (("clusters", "east", "client", "sasl.oauthbearer.token.endpoint.url"), [f"https://{text}" for text in ADDRESSES]),
    (("clusters", "west", "client"), [{key: f"/tmp/{CANARY}"} for key in CLIENT_SETTINGS]),
    (("clusters", "east", "principals"), [{"plan": {key: CANARY}} for key in CLIENT_SETTINGS]),
    (("mirrors", "west", "spark_conf"), [{name: value} for name, value in SPARK_SETTINGS]),
    (("mirrors", "west", "master"), ("spark://evil.example:7077", "local[" + "9" * 50 + "]", "k8s://x", "yarn")),
    (("users", 0, "password"), REFERENCES),
    (("topics", "orders", "partitions"), NUMBERS),
    (("flows", "east-to-west", "lanes"), NUMBERS),
    (("quotas", 0, "request_percentage"), NUMBERS),
    (("topics", "orders", "configs"), [{"retention.ms": number} for number in NUMBERS]),
    (("cutover",), [{"hooks": {"before": hook}} for hook in HOOKS]),
    (("cutover",), [{"hooks": {"switch": {"http": {"url": f"https://{text}"}}}} for text in ADDRESSES]),
    (("cutover",), [{"hooks": {"after": {"file": {"path": path, "text": CANARY}}}} for path in PATHS]),
    (("docs_url",), [f"https://{text}" for text in (*ADDRESSES, *MARKUP)]),
    (("audit",), [{"topic": text, "cluster": "east"} for text in PATHS]),
    (("mirrors", "west", "python"), [{"archive": path, "executable": path} for path in PATHS]),
    (("mirrors", "west", "metrics_host"), ADDRESSES),
    (("mirrors", "west", "channel"), [{"bind_address": text, "advertised_address": text} for text in ADDRESSES]),
    (("mirrors", "west", "metrics_port"), NUMBERS),
    (("mirrors", "west", "hosted"), (True, "yes", 1)),
    (("clusters", "east", "client", "ssl.ca.location"), (*PATHS, *REFERENCES)),
    (("clusters", "east", "service"), ("msk", "event-hubs", "confluent-cloud", "no such")),
    (("clusters", "east", "reassignment"), [{"throttle_bytes_per_second": number} for number in NUMBERS]),
    (("flows", "east-to-west", "copies"), ("read_only", "writable", "x")),
    (("flows", "east-to-west", "offsets"), ("same", "translated")),
    (("flows", "east-to-west", "provenance"), ("local", "forward")),
    (("flows", "east-to-west", "filler_limit"), NUMBERS),
    (("flows", "east-to-west", "rate_limit"), (*NUMBERS, "9" * 400 + "MiB", "1e9")),
    (("flows", "east-to-west", "start"), [{"timestamp": number} for number in NUMBERS]),
    (("flows", "east-to-west", "start"), [{"offsets": {"orders": {"0": number}}} for number in NUMBERS]),
    (("flows", "east-to-west", "start"), ["9999-12-31T23:59:59Z", "0000-00-00", "\u0661\u0662", {"timestamp": "x"}]),
    (("flows", "east-to-west", "headers"), [{"add": {text: text}} for text in MARKUP]),
    (("flows", "east-to-west", "on_condition"), [{"record_refused": "stop"}, {CANARY: CANARY}, "stop"]),
    (("flows", "east-to-west", "objectives"), [{"rto": text, "rpo": text, "drill_every": text} for text in DURATIONS]),
    (("flows", "east-to-west", "groups", "interval"), DURATIONS),
    (("flows", "east-to-west", "access"), [{"sync": True, "principals": {text: f"User:{text}"}} for text in MARKUP]),
    (("flows", "east-to-west", "access"), [{"sync": True, "groups": True}]),
    (("flows", "east-to-west", "mirrormaker_topics"), [{"heartbeats_interval": text} for text in DURATIONS]),
    (("rollout",), [{"soak": d, "waves": [{"name": "a", "clusters": ["east"]}]} for d in DURATIONS]),
    (("rollout",), [{"waves": [{"name": text, "regions": [text]}]} for text in MARKUP]),
    (("moved",), [[{"topic": "orders", "from": text}] for text in PATHS]),
    (("moved",), [[{"environment": "prod", "from": text}] for text in (*PATHS, *MARKUP)]),
    (("shrink_limit",), [{"percent": number, "least": number} for number in NUMBERS]),
)  # fmt: skip


@dataclass(frozen=True)
class HostileFile:
    """``content`` None: ``make`` puts something else than a file there."""

    name: bytes
    content: bytes | None
    make: str = ""


@dataclass(frozen=True)
class HostileEnvironment:
    files: tuple[HostileFile, ...]

    @property
    def concerns_git(self) -> bool:
        return any(
            word in text
            for file in self.files
            for word in ("repository", "git", "link", "tree")
            for text in (file.make, file.name.decode("latin-1").lower())
        )

    def write(self, folder: Path, outside: Path) -> None:
        """``outside``: a file that is not of the repository."""
        for file in self.files:
            path = os.path.join(os.fsencode(folder), file.name)  # noqa: PTH118 - names that are no text
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
                if file.content is None:
                    _MAKERS[file.make](path, os.fsencode(outside))
                else:
                    Path(os.fsdecode(path)).write_bytes(file.content)
            except (OSError, ValueError):
                continue  # a name that is too long, or is taken

    def __repr__(self) -> str:
        return "\n".join(f"{file.name!r}: {file.make or (file.content or b'')[:3000]!r}" for file in self.files)


def _link_to(target: bytes) -> Callable[[bytes, bytes], None]:
    return lambda path, _: os.symlink(target, path)  # noqa: PTH211 - names that are no text


def _folder_of(path: bytes, _: bytes) -> None:
    os.mkdir(path)  # noqa: PTH102


def _deep(path: bytes, _: bytes) -> None:
    deep = path + b"/d" * 120
    os.makedirs(deep)  # noqa: PTH103
    Path(os.fsdecode(deep + b"/x.yaml")).write_bytes(b"x: 1\n")


def _repository(folder: bytes, outside: bytes) -> None:
    """What git takes for a repository, and whose configuration runs programs."""
    root = os.fsdecode(os.path.join(os.path.dirname(os.path.dirname(outside)), b"repo"))  # noqa: PTH118, PTH120
    made, program = Path(os.fsdecode(folder)), f'"touch {root}/{CANARY}; false"'
    for name in ("objects", "refs"):
        (made / name).mkdir(parents=True, exist_ok=True)
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    settings = {"repositoryformatversion": "0", "bare": "false", "worktree": "."}
    settings |= dict.fromkeys(("fsmonitor", "pager", "sshCommand", "hooksPath"), program)
    (made / "config").write_text("[core]\n" + "".join(f"\t{key} = {value}\n" for key, value in settings.items()))


def _around(path: bytes, outside: bytes) -> None:
    _repository(os.path.dirname(path), outside)  # noqa: PTH120


def _git_folder(path: bytes, outside: bytes) -> None:
    _repository(os.path.join(os.path.dirname(path), b".git"), outside)  # noqa: PTH118, PTH120


def _work_tree(path: bytes, outside: bytes) -> None:
    """A folder that is one by a file ``commondir``, which leads to a repository of the edit."""
    _repository(path, outside)
    (Path(os.fsdecode(path)) / "commondir").write_text(".\n")


def _linked_tree(path: bytes, outside: bytes) -> None:
    """A work tree as ``git worktree`` makes one: a file ``.git`` that leads to a repository of the edit."""
    store = os.path.join(path, b"store")  # noqa: PTH118
    _repository(store, outside)
    (Path(os.fsdecode(path)) / ".git").write_text("gitdir: store\n")


def _borrowing(path: bytes, outside: bytes) -> None:
    """A repository that takes objects from elsewhere, and whose configuration includes a file of the machine."""
    _repository(path, outside)
    made = Path(os.fsdecode(path))
    (made / "objects" / "info").mkdir(parents=True)
    (made / "objects" / "info" / "alternates").write_text(f"{os.fsdecode(outside)}\n../../../.git/objects\n")
    (made / "objects" / "info" / "http-alternates").write_text("http://evil.example/objects\n")
    with (made / "config").open("a") as config:
        config.write(f'[include]\n\tpath = {os.fsdecode(outside)}\n[includeIf "gitdir:/"]\n\tpath = /etc/passwd\n')


def _case_of_git(path: bytes, outside: bytes) -> None:
    """Where names differ by case only, a file system may take it for ``.git``."""
    _repository(os.path.join(os.path.dirname(path), b".GiT"), outside)  # noqa: PTH118, PTH120


def _loop_of_links(path: bytes, _: bytes) -> None:
    """Links that lead to each other, and a folder that holds itself."""
    os.makedirs(path)  # noqa: PTH103
    made = Path(os.fsdecode(path))
    (made / "a.yaml").symlink_to("b.yaml")
    (made / "b.yaml").symlink_to("a.yaml")
    (made / "self").symlink_to(".")
    (made / "up").symlink_to("..")


def _chain_of_links(path: bytes, _: bytes) -> None:
    """More links than Linux follows, and the last one leads out."""
    os.makedirs(path)  # noqa: PTH103
    made = Path(os.fsdecode(path))
    for number in range(50):
        (made / f"{number}.yaml").symlink_to(f"{number + 1}.yaml" if number < 49 else "/etc/passwd")


_MAKERS: Mapping[str, Callable[[bytes, bytes], None]] = {
    "repository": _repository,
    "repository around it": _around,
    "folder .git": _git_folder,
    "work tree": _work_tree,
    "git worktree": _linked_tree,
    "repository that borrows": _borrowing,
    "folder .GiT": _case_of_git,
    "links in a loop": _loop_of_links,
    "links in a chain": _chain_of_links,
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: os.mknod(path, 0o140644),
    "folder": _folder_of,
    "deep": _deep,
    "outside": lambda path, outside: os.symlink(outside, path),  # noqa: PTH211
    "outside folder": lambda path, outside: os.symlink(os.path.dirname(outside), path),  # noqa: PTH120, PTH211
    **{
        f"link to {target.decode()}": _link_to(target)
        for target in (
            b"/etc/passwd", b"/etc/shadow", b"/proc/self/environ", b"/proc/self/fd/0", b"/dev/zero", b"/dev/stdin",
            b"/dev/tty", b"/", b".", b"..",
            b"../../outside.yaml", b"x.yaml", b"loop.yaml", b"/proc/self/root/etc/passwd", b"../.git/config",
            b"../.git", b"/dev/random", b"missing", b"../../.git/HEAD", b"../../.git/config", b"../../.git/logs/HEAD",
            b"../../.git", b"../../.env", b"../../.env.yaml", b"../../shared.yaml", b"../../shared/../.env.yaml",
            b"../../shared", b"../hostile/topology.yaml", b"../../.git/index", b"../../.git/objects",
            b"../../.git/hooks", b"/proc/self/cmdline", b"/proc/self/mem", b"/proc/1/environ", b"/sys/kernel/profiling",
            b"../../shared.yaml/", b"./topology.yaml", b"topology.yaml", b"x/../../../.env", b"~/.ssh/id_rsa",
            b"//etc/passwd",
        )
    },
}  # fmt: skip
_NAMES = (
    b"x.yaml", b"y.yaml", b"loop.yaml", b"a/b.yaml", b"x\n::add-mask::y.yaml", b"x\r##[error]y.yaml",
    b"x\x1b[31my.yaml", b"\xff\xfe.yaml", b"-rf.yaml",
    b"$(touch c4nary).yaml", b"<script>.yaml", "\u202elmay.yaml".encode(), b"..yaml", b".yaml", b"x.yml", b"X.YAML",
    b"'\".yaml", b"@octocat.yaml",
    b"[x](http:/evil).yaml", b"`x`.yaml", b"a b.yaml", "\u2028.yaml".encode(), b"CON.yaml", b"x" * 200 + b".yaml",
    b"\x7f.yaml", b"%s%n.yaml", b"{}.yaml",
)  # fmt: skip
_PYTHON = f"import os\nos.system('touch {CANARY}')\nraise SystemExit(2)\n".encode()
_EXTRAS = (
    HostileFile(b"evil.py", _PYTHON), HostileFile(b"sitecustomize.py", _PYTHON),
    HostileFile(b"antigravity.py", _PYTHON), HostileFile(b"yaml.py", _PYTHON),
    HostileFile(b"__init__.py", _PYTHON), HostileFile(b"conftest.py", _PYTHON),
    HostileFile(b"tree", None, "git worktree"), HostileFile(b"more", None, "repository that borrows"),
    HostileFile(b"x", None, "folder .GiT"), HostileFile(b"loops", None, "links in a loop"),
    HostileFile(b"chain", None, "links in a chain"), HostileFile(b"chain", None, "link to ../../.git"),
    HostileFile(b".GIT", b"gitdir: ../../.git\n"), HostileFile(b".git ", b"gitdir: /etc\n"),
    HostileFile(b"git~1/config", b"[core]\n\tfsmonitor = touch c4nary\n"),
    HostileFile(b"objects/info/alternates", b"/etc\n"), HostileFile(b"CODEOWNERS", b"* @octocat\n"),
    HostileFile(b".mailmap", b"A <a@example.com> <b@example.com>\n"), HostileFile(b".gitignore", b"*\n"),
    HostileFile(b".netrc", b"machine git.example login a password b\n"), HostileFile(b"krb5.conf",
    b"include /etc/passwd\n"),
    HostileFile(b".git", b"gitdir: /etc\n"), HostileFile(b"a/.git", b"gitdir: ../../../.git\n"),
    HostileFile(b"more", None, "repository"), HostileFile(b"more", None, "work tree"),
    HostileFile(b"x", None, "repository around it"), HostileFile(b".hidden", None, "repository"),
    HostileFile(b"a/x", None, "folder .git"), HostileFile(b"x", None, "folder .git"),
    HostileFile(b"module", None, "folder"), HostileFile(b"l.yaml", None, "link to ../../.env.yaml"),
    HostileFile(b"l.yaml", None, "link to ../../shared.yaml"), HostileFile(b"l.yaml", None, "link to ../../.git/HEAD"),
    HostileFile(b".gitmodules", b"[submodule \"x\"]\n\tpath = ../../../etc\n"),
    HostileFile(b".gitmodules", b"[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c x\n\tupdate = !touch c4nary\n"),
    HostileFile(b".gitattributes", b"* filter=evil diff=evil working-tree-encoding=UTF-16 ident\n"),
    HostileFile(b".env", b"HOSTILE=1\n"),
    HostileFile(b"schemas/environment.schema.json", b"{}"), HostileFile(b".hidden.yaml", b"x: [\n"),
    HostileFile(b"empty", None, "folder"), HostileFile(b"folder.yaml", None, "folder"),
    HostileFile(b"deep", None, "deep"), HostileFile(b"pyproject.toml", b"["),
)  # fmt: skip


@st.composite
def hostile_environments(draw: st.DrawFn) -> HostileEnvironment:
    document = _document(draw)
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    name = names[0] if draw(st.integers(0, 3)) == 0 else b"topology.yaml"
    files = [HostileFile(name, _text(draw, document))]
    kind = draw(st.integers(0, 9))
    if kind == 0:
        files.append(HostileFile(names[-1], _encoded(draw(st.sampled_from(FRAGMENTS)))))
    elif kind == 1:
        files.append(HostileFile(names[-1], None, draw(st.sampled_from(sorted(_MAKERS)))))
    elif kind == 2:
        files.append(HostileFile(b"z.yaml", draw(st.binary(max_size=60))))
    elif kind == 3:
        files.append(HostileFile(names[-1], json.dumps({"x-note": draw(hostile_text)}).encode()))
    if draw(st.integers(0, 2)) == 0:
        files += draw(st.lists(st.sampled_from(_EXTRAS), min_size=1, max_size=3))
    return HostileEnvironment(tuple(files))


def _document(draw: st.DrawFn) -> Document:
    document = copy.deepcopy(RIGHT)
    for section in draw(st.lists(st.sampled_from(_OPTIONAL), max_size=2, unique=True)):
        del document[section]
    for path in draw(st.lists(st.sampled_from(_SHOWN), max_size=3, unique=True)):
        _put(document, path, draw(shown_text))
    for path, values in draw(st.lists(st.sampled_from(_SPECIAL), max_size=2)):
        if draw(st.booleans()):
            _put(document, path, draw(st.sampled_from(values)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        _spoil(draw, document)
    return document


def _put(document: Any, path: Sequence[Any], value: Any) -> None:
    here = document
    try:
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = copy.deepcopy(value)  # else what is spoiled in it would stay for all that come after
    except (KeyError, IndexError, TypeError):
        return


def _spoil(draw: st.DrawFn, document: Document) -> None:
    """Anything anywhere: another value, a key more, a name that is another."""
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [document]
    while waiting:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        for key in keys:
            places.append((here, key))
            if isinstance(here[key], (dict, list)) and here[key]:
                waiting.append(here[key])
    if not places:
        return
    here, key = draw(st.sampled_from(range(len(places))).map(places.__getitem__))
    value: Any = copy.deepcopy(
        draw(hostile_text | st.sampled_from(NUMBERS) | st.sampled_from((None, True, [], {}, [[]], [{}], {"a": {}})))
    )
    match draw(st.integers(0, 2)):
        case 1 if isinstance(here, dict):
            here[draw(hostile_text)] = value
        case 2 if isinstance(here, dict):
            here[draw(hostile_text)] = here.pop(key)
        case _:
            here[key] = value


def _text(draw: st.DrawFn, document: Document) -> bytes:
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from((None, 1))))
    if draw(st.integers(0, 7)) == 0:
        body = "".join(f"{json.dumps(key)}: {json.dumps(value)}\n" for key, value in document.items())
        return _encoded(body + draw(st.sampled_from(FRAGMENTS)))
    return _encoded(text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

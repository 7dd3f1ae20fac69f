"""libyaml reads what ruamel.yaml's scanner of YAML 1.2 reads. Lines and columns count: problems point at them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import Event

from reconciler.environment.load import load
from reconciler.environment.yaml import read as reading
from reconciler.environment.yaml.nodes import CONTROL, Document, Mapping, Node, Scalar, Sequence
from reconciler.environment.yaml.read import GiveUpError, TreeBuilder, read
from reconciler.errors import TopologyError, Where
from tests.support.paths import ENVIRONMENTS

TOPICS = "topics:\n" + "".join(f"  team.t-{n}: {{clusters: [east], configs: {{retention.ms: 1d}}}}\n" for n in range(9))
STYLES = """# a comment
---
a:
- b
- c: d
  e: 'x y'
-   f   # behind
k: [
  a, b,   # within
  "c d"
 ]
l: {m: host:9092, n: -1, o: {}, p: []}

q: some words, and more
r:
    - {x: 1.5, "y z": ['it', "was"]}
    - s:
        t: ^orders\\.(a|b)$
"""
SAMPLES = [TOPICS, STYLES, *(file.read_text() for file in sorted(ENVIRONMENTS.glob("**/*.yaml")))]
FRAGMENTS = [
    *"ab0:,-[]{}#'\" \n\t\r|>&*!%@?~=.<\\$\u2028\u00e9\ufeff",
    *("- ", ": ", " #", "\n  ", "\n\n", "---", "...", "<<: ", "&a ", "*a", "1_0", "0x1", "010", "yes", "Off", "null"),
]

CUNNING = {
    "an anchor and a merge key": "a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n",
    "an alias that is not there": "a: *nobody\n",
    "a key twice": "a: 1\nb: 2\na: 3\n",
    "a key twice in one line": "a: {b: 1, b: 2}\n",
    "words of YAML 1.1": "a: yes\nb: [on, Off]\nc: NO\n",
    "octal numbers": "a: 010\nb: 0o10\nc: [0x1F]\n",
    "an exponent without a dot": "a: 1e3\nb: [12E5]\n",
    "sexagesimal numbers and underscores": "a: 1:30\nb: 1_000\n",
    "a tab for indentation": "a:\n\tb: 1\n",
    "a tab before a comment": "a: b\t# c\n",
    "a byte order mark": "\ufeffa: 1\n",
    "lines of Windows": "a: 1\r\nb:\r\n  - c\r\n",
    "a line separator in quotes": "a: 'b\u2028c'\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "the end of a document": "a: 1\n...\n",
    "dots at the beginning of a line of a list": "a: [b,\n...\n]\n",
    "a directive": "%YAML 1.1\n---\na: yes\n",
    "a tag": "a: !!str 1\n",
    "a text over lines": "a: b\n  c\nd: e\n",
    "a block of text": "a: |\n  b\nc: >\n  d\n",
    "an empty value": "a:\nb: {c: , d: 1}\n",
    "an empty file": "",
    "only comments": "# nothing\n\n",
    "a list at the top": "- a\n",
    "a first line that is indented": "  a: 1\n  b: 2\n",
    "a line that is indented too far": "a:\n  b: 1\n   c: 2\n",
    "a line between two levels": "a:\n    b: 1\n  c: 2\n",
    "no space after a colon": "a:1\nb: {c:1}\n",
    "a pair in a list": "a: [b: c]\n",
    "a comma at the end": "a: [b, ]\nc: {d: 1,}\n",
    "a collection as a key": "[a]: b\n? c\n: d\n",
    "a list in a list": "a:\n- - b\n",
    "escapes": "a: \"b\\tc\"\nd: 'e''f'\n",
    "a mark without a space": "a: b#c\nd: [e#f]\n",
    "a number too long for a number": f"a: {'9' * 50}\n",
    "a key too long for a key": f"{'k' * 1100}: a\n",
    "no line break at the end": "a: [b]",
    "a comment without a line break at the end": "a: b\n  # c",
    "very deep": "a: " + "[" * 60 + "]" * 60 + "\n",
}


SYNTAX = {"yaml-broken", "yaml-tab", "yaml-conflict"}


def event_of(event: Event) -> yaml.Event:
    """An event of ruamel.yaml as one of PyYAML."""
    names = ("anchor", "tag", "implicit", "value", "style", "start_mark")
    given = {name: getattr(event, name) for name in names if hasattr(event, name)}
    given["tag"] = str(given["tag"]) if given.get("tag") else None
    kind: type[yaml.Event] = getattr(yaml.events, type(event).__name__)
    made = kind.__new__(kind)
    vars(made).update(given)
    return made


def by_ruamel(text: str) -> Document | None:
    """The same document from the events of another parser; None where it refuses the text."""
    events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    builder = TreeBuilder("f", lambda: event_of(event) if (event := next(events, None)) else None)
    try:
        root = builder.root()
    except (YAMLError, OverflowError, ValueError):
        return None
    except GiveUpError:
        root = None
    return Document("f", root, tuple(builder.problems))


def shape(node: Node | None) -> object:
    """Texts, quotes, lines and columns. ruamel.yaml says of an empty value the place where the next token begins."""
    match node:
        case Mapping(entries, line, column):
            return line, column, [(key, e.line, e.column, shape(e.value)) for key, e in entries.items()]
        case Sequence(items, line, column):
            return line, column, [shape(item) for item in items]
        case Scalar(""):
            return ""
    return node


APART = re.compile(
    r"\t|(?<!\S)[|>]\S*#|:[,?\[\]{}:\"']|(^|[\r\[{,?:-])\s*:|\A(\s*(#.*)?\n)*(--- *)?([&!]\S* +)*[|>]", re.MULTILINE
)
"""Where one may refuse what the other takes. libyaml lets tabs separate, as YAML 1.2 does, and takes a colon for a
word's end where a bracket or a quote follows or nothing stands before it. The text of a block scalar that is the whole
document may begin in the first column for libyaml, as YAML says."""
NAMED = re.compile(r"(?<![^\s\[{,:-])[&*!]\S*[^\sA-Za-z0-9_-]")
"""To ruamel.yaml the name of an anchor ends at a space only."""


def same(text: str) -> None:
    """Both parsers read the same, or both refuse it."""
    text = text.removeprefix("\ufeff")
    if CONTROL.search(text) or NAMED.search(text):
        return
    ours, theirs = read("f", text), by_ruamel(text)
    codes = {problem.code for problem in ours.problems}
    if APART.search(text) and (theirs is None or codes & SYNTAX):
        return
    assert (theirs is None) == bool(codes & SYNTAX)
    if theirs is not None and codes != {"empty-file"}:
        assert (shape(ours.root), told(ours)) == (shape(theirs.root), told(theirs))


def told(document: Document) -> list[object]:
    """The problems. Of an empty value that cannot be merged the place is not compared: see ``shape``."""
    return [replace(one, where=Where("f")) if one.code == "yaml-merge" else one for one in document.problems]


@pytest.mark.parametrize("text", CUNNING.values(), ids=CUNNING.keys())
def test_of_cunning_texts(text: str) -> None:
    same(text)


@pytest.mark.parametrize("char", ["\x85", "\u2028", "\u2029", "\x9b", "\x1b", "\ufeff"])
def test_line_ends_of_some_programs_and_terminal_codes_are_refused_with_their_place(char: str) -> None:
    """A comment would go on as text on the next line; an escaped one would reach the terminal of who reads a plan."""
    (raw,) = read("f", f"a: b\n# one{char}two: 3\n").problems
    assert raw.where == Where("f", 2, 6)
    (escaped,) = read("f", f'a: b\nc: "one\\u{ord(char):04x}two"\n').problems
    assert escaped.where == Where("f", 2, 4)
    assert f"U+{ord(char):04X}" in raw.what
    assert raw.what == escaped.what


@pytest.mark.parametrize("text", SAMPLES[:2], ids=["topics", "styles"])
def test_what_topologies_are_made_of_has_no_problem(text: str) -> None:
    same(text)
    assert read("f", text).problems == ()


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A piece of a sample with a few slips."""
    lines = draw(st.sampled_from(SAMPLES)).split("\n")
    begin = draw(st.integers(0, max(0, len(lines) - 3)))
    text = "\n".join(lines[begin : begin + draw(st.integers(2, 12))])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(FRAGMENTS)) + text[at + draw(st.integers(0, 2)) :]
    return text


@given(mangled())
@example("a: b\n#c\n d: e\n")
def test_of_texts_with_slips(text: str) -> None:
    same(text)


WORDS = st.text("ab1-./:*", min_size=1, max_size=6) | st.sampled_from(["1", "1.5", "-1", "true", "host:9092", "1d"])
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


def written(tree: Any, draw: Callable[..., Any], indent: int, flow: bool) -> str:
    """A tree as somebody would write it; begins with its line break where it is a block."""
    gap = draw(st.sampled_from([" ", "  ", " \n   "])) if flow else ""
    inside = flow or not tree or draw(st.booleans())
    match tree:
        case str() if draw(st.booleans()):
            return f"'{tree}'"
        case str():
            return tree
        case dict() if inside:
            return "{" + f",{gap}".join(f"{k}: {written(v, draw, indent, True)}" for k, v in tree.items()) + "}"
        case list() if inside:
            return "[" + f",{gap}".join(written(item, draw, indent, True) for item in tree) + "]"
    deeper = indent + draw(st.integers(0 if isinstance(tree, list) else 1, 4))
    before = "\n" + draw(st.sampled_from(["", "# c\n", "\n"])) + " " * deeper
    if isinstance(tree, dict):
        return "".join(f"{before}{k}: {written(v, draw, deeper, False)}" for k, v in tree.items())
    return "".join(f"{before}- {written(item, draw, deeper + 2, False)}" for item in tree)


@given(st.dictionaries(WORDS, TREES, min_size=1, max_size=4), st.data())
def test_of_trees_as_people_write_them(tree: dict[str, Any], data: st.DataObject) -> None:
    same("".join(f"{key}: {written(value, data.draw, 0, False)}\n" for key, value in tree.items()))


@pytest.mark.parametrize("text", [text for text in SAMPLES if "<<:" not in text], ids=count())
def test_keys_are_where_the_round_trip_loader_sees_them(text: str) -> None:
    loader = YAML(typ="rt", pure=True)

    def compare(node: Node | None, seen: Any) -> None:
        if isinstance(node, Mapping):
            assert list(node.entries) == [str(key) for key in seen]
            for key, (name, entry) in zip(seen, node.entries.items(), strict=True):
                assert (entry.line - 1, entry.column - 1) == seen.lc.key(key), name
                compare(entry.value, seen[key])
        elif isinstance(node, Sequence):
            assert len(node.items) == len(seen)
            for number, item in enumerate(node.items):
                assert (item.line - 1, item.column - 1) == tuple(seen.lc.item(number))
                compare(item, seen[number])

    compare(read("f", text).root, loader.load(text))


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "".join(" " * n + "a:\n" for n in range(500))])
def test_a_text_that_is_too_deep_is_not_scanned_to_its_end(text: str) -> None:
    """Each open bracket makes every further token dearer: a small file would hold a check up for hours."""
    assert [problem.code for problem in read("f", text).problems] == ["yaml-too-large"]


@pytest.mark.parametrize("text", [*CUNNING.values(), *SAMPLES])
def test_without_libyaml_the_same_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyYAML that was built from source may have no C parser. The other takes no tab before a comment."""
    text = text.replace("\t#", " #")
    by_libyaml = read("f", text)
    monkeypatch.setattr(reading, "Parser", yaml.SafeLoader)
    slowly = read("f", text)
    assert shape(slowly.root) == shape(by_libyaml.root)
    assert [(p.code, p.where) for p in slowly.problems] == [(p.code, p.where) for p in by_libyaml.problems]


@pytest.mark.parametrize(("text", "line", "column"), [("a: {", 1, 5), ("a: {\n", 2, 1), ("a: 1\nb: [c", 2, 6)])
def test_a_text_that_ends_too_early_is_broken_at_its_end(text: str, line: int, column: int) -> None:
    assert [problem.where for problem in read("f", text).problems] == [Where("f", line, column)]


# words for the author of a text that is no YAML

HEAD = "topics:\n  orders: {clusters: [east]}\n"


@pytest.mark.parametrize(
    ("text", "what", "todo"),
    [
        (
            "topics:\n  orders: {clusters: [east]\nflows: {}\n",
            "the { that opens in line 2, column 11,",
            "Close it with }",
        ),
        ("topics:\n  orders: {clusters: [east}\n", "the [ that opens in line 2, column 22,", "Close it with ]"),
        ("topics:\n  orders: {clusters: [east]}}\n", "the } has no opening {", "Remove it"),
        (f"{HEAD}flows:\n  f: {{topics: *}}\n", "text that begins with * or &", "Quote it, as in '.*'"),
        (f"{HEAD}flows:\n  f: {{topics: ['a]}}\n", "the quote that opens in line 4, column 16, is not", "same sign"),
        (f'{HEAD}flows:\n  f: {{topics: ["a\\.b"]}}\n', "inside double quotes \\ begins an escape", "single quotes"),
        (f"{HEAD}x-note: @me\n", "no text begins with @", "Quote it"),
        ("topics:\n  orders: a: b\n", "a second key or a colon where a value belongs", "Quote a value"),
        ("topics:\n  orders: {}\n  payments\n", "a line without a colon", "Write key: value"),
    ],
)
def test_it_says_what_is_wrong_and_what_to_write(text: str, what: str, todo: str) -> None:
    [problem] = read("t.yaml", text).problems
    assert what in problem.what
    assert todo in problem.todo


# a file of another tool is one problem: what it is, and which command takes over what it declares

OURS = "clusters:\n  east: {bootstrap_servers: [e:9092]}\ntopics:\n  orders: {clusters: [east]}\n"
STRIMZI = """apiVersion: kafka.strimzi.io/v1beta2
kind: {kind}
metadata: {{name: orders, labels: {{strimzi.io/cluster: main}}}}
spec: {{partitions: 3, replicas: 3}}
"""
TOPICCTL = "meta: {name: orders, cluster: c, environment: e, region: r}\nspec: {partitions: 9, replicationFactor: 2}\n"
GITOPS = (
    "topics:\n  orders: {partitions: 6, replication: 3}\nservices:\n  app: {type: application, produces: [orders]}\n"
)
JULIE = "context: acme\nprojects:\n  - {name: foo, topics: [{name: foo, config: {num.partitions: '1'}}]}\n"


@pytest.mark.parametrize(
    ("text", "what", "command"),
    [
        (STRIMZI.format(kind="KafkaTopic"), "a KafkaTopic of Strimzi", "reconciler adopt"),
        (STRIMZI.format(kind="KafkaUser"), "a KafkaUser of Strimzi", "reconciler adopt"),
        (STRIMZI.format(kind="KafkaMirrorMaker2"), "a KafkaMirrorMaker2 of Strimzi", "reconciler import FILE"),
        (STRIMZI.format(kind="KafkaTopic") * 2, "a KafkaTopic of Strimzi", "reconciler adopt"),
        (f"{STRIMZI.format(kind='KafkaTopic')}---\n{STRIMZI.format(kind='KafkaTopic')}", "Strimzi", "reconciler adopt"),
        (
            "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicList\nitems: []\n",
            "a KafkaTopicList of Jikkou",
            "adopt",
        ),
        (TOPICCTL, "a topic of topicctl", "reconciler adopt"),
        (GITOPS, "a desired state of kafka-gitops", "reconciler adopt"),
        (GITOPS.partition("services")[0], "a desired state of kafka-gitops", "reconciler adopt"),
        (JULIE, "a topology of JulieOps", "reconciler adopt"),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "a Deployment of Kubernetes", "Move it out"),
        ("services:\n  kafka: {image: x}\n", "a file of Docker Compose", "Move it out"),
    ],
)
def test_it_is_one_sentence_and_a_command(text: str, what: str, command: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load({"ours.yaml": OURS, "theirs.yaml": text}, "env")
    [problem] = caught.value.problems
    assert (problem.code, problem.where.file) == ("foreign-file", "theirs.yaml")
    assert what in problem.what
    assert command in problem.todo


@pytest.mark.parametrize(
    "text",
    [
        OURS.replace("orders: {clusters: [east]}", "orders: {clusters: [east], replication: 3}"),  # a slip in ours
        OURS + "service: x\n",
        "topics: {}\n",
    ],
)
def test_a_slip_in_a_file_of_ours_is_not_taken_for_another_tools(text: str) -> None:
    assert not [problem for problem in read("t.yaml", text).problems if problem.code == "foreign-file"]

"""A text that is no YAML is told in words for who wrote it, with what to write."""

from __future__ import annotations

import pytest

from reconciler.environment.yaml.read import read

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
        ("topics:\n  orders: a: b\n", "a second key or a colon where a value stands", "Quote a value"),
        ("topics:\n  orders: {}\n  payments\n", "a line without a colon", "Write key: value"),
    ],
)
def test_it_says_what_is_wrong_and_what_to_write(text: str, what: str, todo: str) -> None:
    [problem] = read("t.yaml", text).problems
    assert what in problem.what
    assert todo in problem.todo

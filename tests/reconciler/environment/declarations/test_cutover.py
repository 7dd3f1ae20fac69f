"""``cutover``: each kind of hook as it is read, and targets that could not be compared with what a machine allows."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.hooks import CutoverHook, HookKind

CLUSTERS = "clusters: {east: {bootstrap_servers: ['h:1']}}\n"


def hooks(text: str) -> dict[str, CutoverHook]:
    return dict(load({"a.yaml": f"{CLUSTERS}cutover: {{hooks: {text}}}\n"}, "prod").hooks)


def test_each_kind_is_read() -> None:
    read = hooks(
        "{before: {command: [/opt/a, '${env:A}'], timeout: 5s},"
        " switch: {http: {url: 'https://h.example/x', method: PUT, headers: {A: b}, body: c, status: 204, ca: /ca}},"
        " after: {file: {path: /etc/a, text: b}}}"
    )
    assert read["before"] == CutoverHook(HookKind.COMMAND, "/opt/a", ("${env:A}",), timeout_ms=5_000)
    assert read["switch"] == CutoverHook(HookKind.HTTP, "https://h.example/x", (), "PUT", {"A": "b"}, "c", 204, "/ca")
    assert read["after"] == CutoverHook(HookKind.FILE, "/etc/a", text="b")
    assert read["before"].words == "runs /opt/a '${env:A}', within 5 s"
    assert load({"a.yaml": f"{CLUSTERS}cutover:\n"}, "prod").hooks == {}


@pytest.mark.parametrize(
    ("hook", "code"),
    [
        ("{command: [sh]}", "bad-hook"),
        ("{command: ['/opt/../bin/sh']}", "bad-hook"),
        ("{command: ['${env:SHELL}']}", "bad-hook"),
        ("{http: {url: 'https://user:c4nary@h.example/'}}", "bad-hook"),
        ("{http: {url: 'https://h.example/${env:A}'}}", "bad-hook"),
        ("{http: {url: 'https://h.example/', ca: api.pem}}", "bad-hook"),
        ("{http: {url: 'https://h.example/', ca: '/${env:A}'}}", "bad-hook"),
        ("{http: {url: 'http://h.example/', ca: /etc/api.pem}}", "bad-hook"),
        ("{file: {path: etc/a, text: b}}", "bad-hook"),
        ("{file: {path: /etc/a, text: b}, command: [/opt/a]}", "one-of"),
        ("{timeout: 5s}", "one-of"),
        ("{command: []}", "empty-value"),
    ],
)
def test_a_target_is_plain_and_whole(hook: str, code: str) -> None:
    with pytest.raises(TopologyError) as error:
        hooks(f"{{switch: {hook}}}")
    assert {problem.code for problem in error.value.problems} == {code}
    assert "c4nary" not in str(error.value)

"""Advisories: a hit fails, no hit passes, and whatever else comes back is not checked, never none."""

from __future__ import annotations

import http.client
import json
import urllib.error

import pytest

from requirements import advisories
from requirements.advisories import Ask
from requirements.locked import Package
from tests.support.paths import ROOT
from tests.support.workflow_runner import workflow

PACKAGES = (Package("left", "1.0", (), runtime=True), Package("right", "2.0", (), runtime=False))


def answering(*results: object) -> Ask:
    return lambda body: json.dumps({"results": list(results)}).encode()


def raising(error: Exception) -> Ask:
    def ask(body: bytes) -> bytes:
        raise error

    return ask


@pytest.fixture(autouse=True)
def _in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_every_package_is_asked_about_by_its_purl() -> None:
    asked: list[bytes] = []

    def ask(body: bytes) -> bytes:
        asked.append(body)
        return b'{"results": [{}, {}]}'

    assert advisories.main(ask, PACKAGES) == 0
    [body] = asked
    purls = ["pkg:pypi/left@1.0", "pkg:pypi/right@2.0"]
    assert [query["package"]["purl"] for query in json.loads(body)["queries"]] == purls


def test_none_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main(answering({}, {"vulns": []}), PACKAGES) == 0
    assert capsys.readouterr().out == "2 locked packages: 0 with advisories, 0 not checked\n"


def test_a_hit_fails_with_package_version_id_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    hit = {"vulns": [{"id": "GHSA-vqj2-4v8m-8vrq", "modified": "2023-03-14T05:47:39Z"}]}
    assert advisories.main(answering(hit, {}), PACKAGES) == 1
    out = capsys.readouterr().out
    assert "left 1.0 (the program): GHSA-vqj2-4v8m-8vrq. Lock a version that is not affected: make lock" in out
    assert "NOT CHECKED" not in out
    assert "1 with advisories, 0 not checked" in out


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("Name or service not known"),
        TimeoutError("timed out"),
        urllib.error.HTTPError(advisories.OSV, 503, "Unavailable", http.client.HTTPMessage(), None),
        http.client.IncompleteRead(b"", 9),
    ],
    ids=lambda error: type(error).__name__,
)
def test_where_osv_is_not_reached_it_says_not_checked(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main(raising(error), PACKAGES) == 0
    out = capsys.readouterr().out
    assert "WARNING: 2 locked packages were NOT CHECKED for advisories: OSV could not be asked" in out
    assert "0 with advisories, 2 not checked" in out


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>log in to the network</html>",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"code": 3, "message": "invalid"}',
        b'{"results": {}}',
        b'{"results": [{}]}',
        b'{"results": [{}, {}, {}]}',
        b"[" * 100_000,
        b" " * (advisories.LARGEST_ANSWER + 1),
    ],
    ids=lambda answer: repr(answer[:30]),
)
def test_an_answer_that_is_garbage_is_unknown(answer: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert advisories.main(lambda body: answer, PACKAGES) == 0
    assert "0 with advisories, 2 not checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "none",
        {"vulns": None},
        {"vulns": {}},
        {"vulns": [None]},
        {"vulns": [{}]},
        {"vulns": [{"id": 3}]},
        {"vulns": [{"id": "x\n::error::forged"}]},
        {"error": "no such package"},
        {"next_page_token": "more"},
    ],
    ids=repr,
)
def test_a_result_that_is_garbage_is_unknown_for_its_package(
    result: object, capsys: pytest.CaptureFixture[str]
) -> None:
    hits, unknown = advisories.advisories(PACKAGES, answering({}, result))
    assert (hits, list(unknown)) == ({}, [PACKAGES[1]])
    assert advisories.main(answering({}, result), PACKAGES) == 0
    out = capsys.readouterr().out
    assert "1 locked packages were NOT CHECKED" in out
    assert "forged" not in out


def test_a_hit_fails_although_others_are_unknown() -> None:
    hit = {"vulns": [{"id": "PYSEC-2026-1"}, {"id": 3}]}
    hits, unknown = advisories.advisories(PACKAGES, answering(hit, None))
    assert hits == {PACKAGES[0]: ("PYSEC-2026-1",)}
    assert set(unknown) == set(PACKAGES)
    assert advisories.main(answering(hit, None), PACKAGES) == 1


def test_a_batch_that_fails_leaves_the_others_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisories, "BATCH", 1)
    answers = iter([b'{"results": [{}]}', b"garbage"])
    hits, unknown = advisories.advisories(PACKAGES, lambda body: next(answers))
    assert (hits, list(unknown)) == ({}, [PACKAGES[1]])


def test_in_github_actions_both_are_annotations_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert advisories.main(answering({"vulns": [{"id": "PYSEC-2026-1"}]}, None), PACKAGES) == 1
    error, warning, _ = capsys.readouterr().out.splitlines()
    assert error.startswith("::error title=Advisory::left 1.0 (the program): PYSEC-2026-1.")
    assert warning.startswith("::warning title=Advisories NOT CHECKED::1 locked packages were NOT CHECKED")
    reason = http.client.HTTPException("a line\n::error::forged 100%")
    advisories.main(raising(reason), PACKAGES)
    assert [line[:2] for line in capsys.readouterr().out.splitlines()] == ["::", "2 "]


def test_continuous_integration_asks() -> None:
    steps = workflow("check")["jobs"]["advisories"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make advisories"]
    assert "advisories:\n\t@python3 -m requirements.advisories\n" in (ROOT / "Makefile").read_text("utf-8")

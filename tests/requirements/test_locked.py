"""Reading the locks: each package once, and no line passed over."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from requirements.jars import COORDINATES, jars, located
from requirements.locked import LOCKS, packages, parse

DIGEST = "0a" * 32
LINE = f"typing-extensions==4.16.0 ; sys_platform == 'win32' \\\n    --hash=sha256:{DIGEST}\n"


def test_a_lock_is_read_with_versions_hashes_and_markers() -> None:
    [package] = parse(LINE, runtime=True)
    assert (package.name, package.version, package.hashes) == ("typing-extensions", "4.16.0", (DIGEST,))
    assert package.marker == "sys_platform == 'win32'"
    assert package.purl == "pkg:pypi/typing-extensions@4.16.0"
    [local] = parse(LINE.replace("4.16.0", "1!4.16.0+local"), runtime=True)
    assert local.purl == "pkg:pypi/typing-extensions@1%214.16.0%2Blocal"


@pytest.mark.parametrize(
    "line",
    [
        "rich==15.0.0\n",
        f"rich>=15 --hash=sha256:{DIGEST}\n",
        f"git+ssh://example.net/rich --hash=sha256:{DIGEST}\n",
        "--index-url something\n",
    ],
)
def test_what_is_no_pinned_package_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a pinned package"):
        list(parse(line, runtime=True))


def test_locks_that_disagree_are_refused(tmp_path: Path) -> None:
    locks = (tmp_path / "runtime.lock", tmp_path / "dev.lock")
    locks[0].write_text(LINE)
    locks[1].write_text(LINE.replace("4.16.0", "4.17.0"))
    with pytest.raises(ValueError, match=r"4\.16\.0 and, in dev\.lock, at 4\.17\.0"):
        packages(locks)


def test_every_requirement_of_the_locks_is_read() -> None:
    lines = [line for lock in LOCKS for line in lock.read_text("utf-8").splitlines() if "==" in line[:60]]
    pinned = {line.split("==")[0] for line in lines if not line.startswith(" ")}
    assert {package.name for package in packages()} == pinned
    assert {package.name for package in packages() if package.runtime} >= {"confluent-kafka", "pyspark", "typer"}
    assert not {package.name for package in packages() if package.runtime} & {"pytest", "cryptography", "setuptools"}


def test_jars_are_the_same_in_both_lists() -> None:
    assert len(jars()) == len(COORDINATES.read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    ("coordinates", "checksums", "words"),
    [
        ("org.example:tool:1\n", "", "has no digest"),
        ("", f"{DIGEST}  tool-1.jar\n", r"tool-1\.jar: no coordinates"),
        ("org.example tool\n", "", "not group:artifact:version"),
    ],
)
def test_lists_of_different_jars_are_refused(coordinates: str, checksums: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jars(coordinates, checksums)


def test_coordinates_are_those_of_the_file_with_the_digest(tmp_path: Path) -> None:
    for group, content in (("org/example/tools", b"jar"), ("org/other", b"another")):
        (folder := tmp_path / group / "tool" / "1").mkdir(parents=True)
        (folder / "tool-1.jar").write_bytes(content)
    wanted = {"tool-1.jar": hashlib.sha256(b"jar").hexdigest()}
    assert located(wanted, tmp_path.rglob("*.jar"), tmp_path) == ["org.example.tools:tool:1"]
    assert located({"tool-1.jar": DIGEST}, tmp_path.rglob("*.jar"), tmp_path) == []

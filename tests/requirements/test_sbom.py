"""The bill of materials: what CycloneDX 1.6 requires, each locked package once, the same bytes again, no address."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from requirements import sbom
from requirements.jars import jars
from requirements.licences import Licence
from requirements.locked import Package, packages

DOCUMENT: dict[str, Any] = json.loads(sbom.text())
COMPONENTS: list[dict[str, Any]] = DOCUMENT["components"]


def test_it_is_a_cyclonedx_document() -> None:
    assert (DOCUMENT["bomFormat"], DOCUMENT["specVersion"], DOCUMENT["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", DOCUMENT["serialNumber"])
    assert DOCUMENT["metadata"]["component"]["name"] == "kafka-topology-reconciler"
    for component in COMPONENTS:
        assert component["type"] == "library"
        assert component["name"]
        assert component["version"]
        assert component["bom-ref"] == component["purl"]
        assert component["scope"] in ("required", "optional")
        for digest in component["hashes"]:
            assert digest["alg"] == "SHA-256"
            assert re.fullmatch(r"[0-9a-f]{64}", digest["content"])
        for licence in component.get("licenses", []):
            assert licence.keys() <= {"expression", "acknowledgement"} or licence["license"]["name"]


def test_references_are_unique_and_lead_somewhere() -> None:
    named = Counter([*(one["bom-ref"] for one in COMPONENTS), DOCUMENT["metadata"]["component"]["bom-ref"]])
    assert [ref for ref, times in named.items() if times > 1] == []
    [dependency] = DOCUMENT["dependencies"]
    assert {dependency["ref"], *dependency["dependsOn"]} <= set(named)


def test_every_locked_package_is_there_once_with_its_hashes() -> None:
    python = [one for one in COMPONENTS if one["purl"].startswith("pkg:pypi/")]
    assert sorted((one["name"], one["version"]) for one in python) == [(one.name, one.version) for one in packages()]
    by_name = {one["name"]: one for one in python}
    for package in packages():
        assert [digest["content"] for digest in by_name[package.name]["hashes"]] == list(package.hashes)
        assert by_name[package.name]["scope"] == ("required" if package.runtime else "optional")


def test_every_jar_is_there_once_and_optional() -> None:
    maven = [one for one in COMPONENTS if one["purl"].startswith("pkg:maven/")]
    assert [one["purl"] for one in maven] == sorted(jar.purl for jar in jars())
    assert {one["scope"] for one in maven} == {"optional"}
    assert len(maven) + len(packages()) == len(COMPONENTS)


def test_it_holds_no_address() -> None:
    assert [line for line in sbom.text().splitlines() if "://" in line or "index" in line.lower()] == []


def test_the_same_content_gives_the_same_bytes_and_another_gives_another_serial_number() -> None:
    assert sbom.text() == sbom.text()
    assert "timestamp" not in DOCUMENT["metadata"]
    dated = json.loads(sbom.text(epoch=1_700_000_000))
    assert dated["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert dated["serialNumber"] != DOCUMENT["serialNumber"]


@pytest.mark.parametrize(
    ("licence", "written"),
    [
        (Licence(spdx="MIT OR Apache-2.0"), [{"expression": "MIT OR Apache-2.0", "acknowledgement": "declared"}]),
        (Licence(words="BSD License"), [{"license": {"name": "BSD License", "acknowledgement": "declared"}}]),
        (Licence(), None),
        (None, None),
    ],
)
def test_a_licence_is_the_one_that_the_package_declares(licence: Licence | None, written: object) -> None:
    package = Package("tool", "1", ("0a" * 32,), runtime=True)
    project = {"name": "p", "version": "1", "description": "d", "license": "MIT"}
    [component] = sbom.bill(project, [package], [], lambda _: licence)["components"]
    assert component.get("licenses") == written


def test_the_command_writes_the_file_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert sbom.main([str(tmp_path / "new" / "bill.json")]) == 0
    written = json.loads((tmp_path / "new" / "bill.json").read_text("utf-8"))
    assert written["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    assert sbom.main([]) == 1
    assert "usage" in capsys.readouterr().err

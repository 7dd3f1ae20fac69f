"""The bill of materials, as CycloneDX 1.6: ``python -m requirements.sbom FILE``.

The same locks and the same installed packages give the same bytes: the serial number is made from the content, and a
timestamp is there only where SOURCE_DATE_EPOCH sets one. It holds no address of a package index; a purl needs none."""

from __future__ import annotations

import json
import os
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from requirements.jars import Jar, jars
from requirements.licences import Licence, Told, installed
from requirements.locked import Package, packages

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
USE = "kafka-topology-reconciler:use"
"""Property of each component: ``runtime``, ``development and sandbox``, or ``sandbox`` for jars of tests and demo."""


def bill(
    project: Mapping[str, Any],
    locked: Sequence[Package],
    kafka: Iterable[Jar],
    told: Told = installed,
    epoch: int | None = None,
) -> dict[str, Any]:
    """``project``: the table of pyproject.toml. ``epoch``: seconds since 1970 for the timestamp; None: no timestamp."""
    runtime = [package for package in locked if package.runtime]
    name, version = project["name"], project["version"]
    subject = {
        "type": "application",
        "bom-ref": f"{name}@{version}",
        "name": name,
        "version": version,
        "description": project["description"],
        "licenses": _licences(Licence(spdx=project["license"])),
    }
    metadata: dict[str, Any] = {"lifecycles": [{"phase": "pre-build"}], "component": subject}
    if epoch is not None:
        metadata["timestamp"] = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    components = [_package(package, told(package)) for package in locked] + [_jar(jar) for jar in kafka]
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": sorted(components, key=lambda component: component["bom-ref"]),
        "dependencies": [{"ref": subject["bom-ref"], "dependsOn": sorted(package.purl for package in runtime)}],
        # The locks do not say which package asks for which: these are the direct and the indirect ones.
        "compositions": [{"aggregate": "incomplete", "dependencies": sorted(package.purl for package in runtime)}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{serial}"}


def _package(package: Package, licence: Licence | None) -> dict[str, Any]:
    use = "runtime" if package.runtime else "development and sandbox"
    marker = [{"name": "kafka-topology-reconciler:marker", "value": package.marker}] if package.marker else []
    licences = _licences(licence)
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "scope": "required" if package.runtime else "optional",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.hashes],
        **({"licenses": licences} if licences else {}),
        "properties": [{"name": USE, "value": use}, *marker],
    }


def _jar(jar: Jar) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": jar.purl,
        "group": jar.group,
        "name": jar.artifact,
        "version": jar.version,
        "purl": jar.purl,
        "scope": "optional",
        "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
        "properties": [{"name": USE, "value": "sandbox"}],
    }


def _licences(licence: Licence | None) -> list[dict[str, Any]]:
    if licence is not None and licence.spdx is not None:
        return [{"expression": licence.spdx, "acknowledgement": "declared"}]
    if licence is not None and licence.words is not None:
        return [{"license": {"name": licence.words, "acknowledgement": "declared"}}]
    return []


def text(told: Told = installed, epoch: int | None = None) -> str:
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    return json.dumps(bill(project, packages(), jars(), told, epoch), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m requirements.sbom FILE", file=sys.stderr)
        return 1
    out = Path(arguments[0])
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text(epoch=int(epoch) if epoch else None), "utf-8")
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Keytabs are read as MIT writes them; an unusable one is reported with both values."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from reconciler.kafka.client.auth.keytab import keytab_problem, principals_in
from tests.support.access.kerberos_parts import keytab_entry


@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    hole = struct.pack(">i", -9) + bytes(9)
    file = tmp_path / "client.keytab"
    file.write_bytes(
        b"\5\2" + keytab_entry("kafka/b1.net") + hole + keytab_entry("plan") * 2 + struct.pack(">i", 0) + b"rest"
    )
    return file


def test_each_principal_is_named_once(keytab: Path) -> None:
    assert principals_in(str(keytab)) == ("kafka/b1.net@LAB.TEST", "plan@LAB.TEST")


@pytest.mark.parametrize("principal", ["", "plan", "plan@LAB.TEST", "kafka/b1.net"])
def test_a_principal_that_it_holds_is_no_problem(keytab: Path, principal: str) -> None:
    assert keytab_problem(str(keytab), principal) == ""


@pytest.mark.parametrize("principal", ["apply", "plan@OTHER.TEST", "kafka"])
def test_a_missing_principal_is_reported_with_those_it_has(keytab: Path, principal: str) -> None:
    told = keytab_problem(str(keytab), principal, "${env:KEYTAB}")
    assert f"sasl.kerberos.principal is {principal}, and the keytab ${{env:KEYTAB}} holds kafka/b1.net@" in told


@pytest.mark.parametrize(
    "content", [b"", b"[libdefaults]\n", b"\5\1rest", b"\5\2", b"\5\2" + bytes(2), keytab_entry("plan")]
)
def test_a_file_that_is_no_keytab_is_reported(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "client.keytab"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="keytab"):
        principals_in(str(file))
    assert "Export plan again" in keytab_problem(str(file), "plan")


@pytest.mark.parametrize("cut", range(3, 40, 4))
def test_a_cut_keytab_is_damaged_and_no_other_error(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "client.keytab"
    file.write_bytes((b"\5\2" + keytab_entry("plan"))[:cut])
    told = keytab_problem(str(file), "plan@LAB.TEST")
    assert "damaged" in told or cut > 20


def test_an_empty_and_a_missing_keytab_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "client.keytab"
    assert "cannot be read: No such file or directory" in keytab_problem(str(file), "plan")
    file.write_bytes(b"\5\2")
    assert "without a key" in keytab_problem(str(file), "plan")

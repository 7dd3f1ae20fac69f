"""Keytabs are read as MIT writes them; what no ticket can come from is told with both values."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from reconciler.kafka.client.auth.keytab import keytab_problem, principals_in


def entry(principal: str, realm: str = "LAB.TEST") -> bytes:
    words = [realm, *principal.split("/")]
    body = struct.pack(">H", len(words) - 1)
    body += b"".join(struct.pack(">H", len(word.encode())) + word.encode() for word in words)
    body += struct.pack(">IIB", 1, 0, 2) + struct.pack(">HH", 18, 32) + bytes(32) + struct.pack(">I", 2)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    hole = struct.pack(">i", -9) + bytes(9)
    file = tmp_path / "client.keytab"
    file.write_bytes(b"\5\2" + entry("kafka/b1.net") + hole + entry("plan") * 2 + struct.pack(">i", 0) + b"rest")
    return file


def test_each_principal_is_named_once(keytab: Path) -> None:
    assert principals_in(str(keytab)) == ("kafka/b1.net@LAB.TEST", "plan@LAB.TEST")


@pytest.mark.parametrize("principal", ["", "plan", "plan@LAB.TEST", "kafka/b1.net"])
def test_a_principal_that_it_holds_is_no_problem(keytab: Path, principal: str) -> None:
    assert keytab_problem(str(keytab), principal) == ""


@pytest.mark.parametrize("principal", ["apply", "plan@OTHER.TEST", "kafka"])
def test_a_principal_that_it_lacks_is_told_beside_those_it_holds(keytab: Path, principal: str) -> None:
    told = keytab_problem(str(keytab), principal, "${env:KEYTAB}")
    assert f"sasl.kerberos.principal is {principal}, and the keytab ${{env:KEYTAB}} holds kafka/b1.net@" in told


@pytest.mark.parametrize("content", [b"", b"[libdefaults]\n", b"\5\1rest", b"\5\2", b"\5\2" + bytes(2), entry("plan")])
def test_what_is_no_keytab_is_told(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "client.keytab"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="keytab"):
        principals_in(str(file))
    assert "Export plan again" in keytab_problem(str(file), "plan")


@pytest.mark.parametrize("cut", range(3, 40, 4))
def test_a_cut_keytab_is_damaged_and_no_other_error(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "client.keytab"
    file.write_bytes((b"\5\2" + entry("plan"))[:cut])
    told = keytab_problem(str(file), "plan@LAB.TEST")
    assert "damaged" in told or cut > 20


def test_an_empty_and_a_missing_keytab_are_told(tmp_path: Path) -> None:
    file = tmp_path / "client.keytab"
    assert "cannot be read: No such file or directory" in keytab_problem(str(file), "plan")
    file.write_bytes(b"\5\2")
    assert "without a key" in keytab_problem(str(file), "plan")

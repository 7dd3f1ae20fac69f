"""A reference to a file reads a file of text, and nothing that never ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.kafka.client.auth.keytab import principals_in
from reconciler.kafka.client.auth.settings import MOST_BYTES, read_secret
from reconciler.kafka.client.auth.tls import context_of, trusting
from reconciler.kafka.client.auth.tokens.web import TokenRefusedError, text_of_file
from reconciler.kafka.client.errors import SettingError


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("s\u00e9\r\n".encode())
    (tmp_path / "link").symlink_to("a")
    assert read_secret(str(tmp_path / "a")) == read_secret(str(tmp_path / "link")) == "s\u00e9\r\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "pipe", "folder", "missing", "binary", "long"])
def test_anything_else_is_refused_at_once(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_bytes(b"a" * (MOST_BYTES + 1))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its words are told
        read_secret(path if path.startswith("/") else str(tmp_path / path))
    assert caught.value.strerror


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", ["/dev/zero", "pipe"])
@pytest.mark.parametrize(
    "read",
    [
        principals_in,
        lambda path: context_of({"ssl.ca.location": path}),
        lambda path: trusting({"https.ca.location": path}, "https.ca"),
        text_of_file,
    ],
    ids=["keytab", "cluster's authority", "endpoint's authority", "token"],
)
def test_a_file_of_a_login_that_has_no_end_is_refused(read: Callable[[str], object], what: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises((OSError, SettingError, TokenRefusedError), match="not a regular file"):
        read(str(tmp_path / what))

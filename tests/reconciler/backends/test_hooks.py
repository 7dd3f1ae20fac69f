"""Hooks of a cut-over as real programs, calls and files: only what the machine lists, within their time, no secret."""

from __future__ import annotations

import contextlib
import os
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key

from reconciler.backends.hooks import run_hook, unlisted
from reconciler.errors import BlockedError, ReconcilerError, SecretError
from reconciler.model.environment.hooks import CutoverHook, HookKind
from reconciler.replication.allowed import allowed
from tests.support.access.certificates import self_signed

FACTS = {"RECONCILER_HOOK": "switch"}


@pytest.fixture(autouse=True)
def _listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", f"hook:{tmp_path}/* hook:http://127.0.0.1:*")
    monkeypatch.setenv("TOKEN", "s3cret-word")


def script(tmp_path: Path, body: str) -> str:
    path = tmp_path / "hook"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def command(target: str, *arguments: str, timeout_ms: int = 20_000) -> CutoverHook:
    return CutoverHook(HookKind.COMMAND, target, arguments, timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    ("word", "target", "listed"),
    [
        ("hook:/opt/hooks/*", "/opt/hooks/dns", True),
        ("hook:/opt/hooks/*", "/opt/hooks/../sh", False),
        ("hook:/opt/hooks/dns", "/opt/hooks/dns2", False),
        ("hook:/opt/*/dns", "/opt/hooks/dns", False),
        ("hook:https://dns.example.net/*", "https://dns.example.net/a", True),
        ("hook:https://dns.example.net*", "https://dns.example.net.evil.org/a", False),
        ("hook:https://*", "https://evil.org/a", False),
        ("hook:*", "/bin/sh", False),
        ("host:*", "/opt/hooks/dns", False),
    ],
)
def test_only_what_is_listed(word: str, target: str, listed: bool) -> None:
    assert allowed({"RECONCILER_ALLOW": word}).lists("hook", target) is listed


def test_what_is_not_listed_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = command(script(tmp_path, f"touch {marker}"))
    monkeypatch.delenv("RECONCILER_ALLOW")
    assert unlisted(hook) == f"hook:{hook.target}"
    with pytest.raises(BlockedError, match="RECONCILER_ALLOW does not list it"):
        run_hook(hook, FACTS)
    assert not marker.exists()


def test_a_program_gets_facts_and_secrets_and_shows_none(tmp_path: Path) -> None:
    hook = command(script(tmp_path, 'echo "$RECONCILER_HOOK $1 $2" >&2'), "--token=${env:TOKEN}", "a b")
    assert run_hook(hook, FACTS) == f"{hook.target} ended with 0: switch --token=*** a b"
    assert "s3cret-word" not in hook.words


def test_its_exit_code_decides_and_its_output_is_capped(tmp_path: Path) -> None:
    body = "yes line | head -n 200000; echo last ${TOKEN}; exit 3"
    with pytest.raises(ReconcilerError) as error:
        run_hook(command(script(tmp_path, body), "${env:TOKEN}"), FACTS)
    assert "ended with 3: line; line; line; line; last ***" in error.value.what


def test_one_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    body = f"echo waiting; (sleep 60 & echo $! > {child}; wait)"
    began = time.monotonic()
    with pytest.raises(ReconcilerError, match="has not ended within 1 s and was killed: waiting") as error:
        run_hook(command(script(tmp_path, body), timeout_ms=1_000), FACTS)
    assert time.monotonic() - began < 20
    assert "do no harm twice" in error.value.why
    until = time.monotonic() + 10
    while Path(f"/proc/{child.read_text().strip()}/cmdline").exists() and time.monotonic() < until:
        if not Path(f"/proc/{child.read_text().strip()}/cmdline").read_bytes():
            break  # a zombie that its new parent has not looked at yet
        time.sleep(0.05)
    assert time.monotonic() < until


def test_a_secret_that_cannot_be_had_and_a_program_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="argument 0"):
        run_hook(command(script(tmp_path, "true"), "${env:NOT_SET_ANYWHERE}"), FACTS)
    with pytest.raises(ReconcilerError, match="cannot be run: No such file"):
        run_hook(command(str(tmp_path / "absent")), FACTS)


class Calls(BaseHTTPRequestHandler):
    seen: list[tuple[str, str, str | None, bytes]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, self.headers.get("Authorization"), body))
        if self.path == "/slow":
            time.sleep(3)
        if self.path == "/drop-by-drop":
            with contextlib.suppress(OSError):
                for _ in range(300):
                    self.wfile.write(b"H")
                    self.wfile.flush()
                    time.sleep(0.1)
        code = {"/moved": 302, "/refused": 403}.get(self.path, 204)
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        if code == 403:
            self.wfile.write(b"no right for " + (self.headers.get("Authorization") or "").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


@pytest.fixture
def address() -> Iterator[str]:
    Calls.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def call(address: str, path: str, timeout_ms: int = 20_000) -> CutoverHook:
    headers = {"Authorization": "Bearer ${env:TOKEN}"}
    return CutoverHook(
        HookKind.HTTP, f"{address}{path}", (), "PUT", headers, '{"to": "west"}', 204, timeout_ms=timeout_ms
    )


@pytest.fixture
def _this_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", f"hook:{address}/*")


@pytest.mark.usefixtures("_this_server")
def test_a_call_has_its_method_headers_and_body_and_its_status_decides(address: str) -> None:
    assert run_hook(call(address, "/records/orders"), FACTS) == f"PUT {address}/records/orders answered 204"
    assert Calls.seen == [("PUT", "/records/orders", "Bearer s3cret-word", b'{"to": "west"}')]
    with pytest.raises(ReconcilerError) as error:
        run_hook(call(address, "/refused"), FACTS)
    assert "answered 403, expected 204: no right for Bearer ***" in error.value.what


@pytest.mark.usefixtures("_this_server")
def test_a_redirect_is_not_followed_and_a_slow_one_is_given_up(address: str) -> None:
    with pytest.raises(ReconcilerError, match="answered 302, expected 204"):
        run_hook(call(address, "/moved"), FACTS)
    assert len(Calls.seen) == 1
    with pytest.raises(ReconcilerError, match=r"no answer: .*timed out"):
        run_hook(call(address, "/slow", 300), FACTS)
    began = time.monotonic()
    with pytest.raises(ReconcilerError, match=r"no answer: .*timed out"):
        run_hook(call(address, "/drop-by-drop", 500), FACTS)
    assert time.monotonic() - began < 20, "a byte now and then, for 30 s, is no answer"


def test_a_call_by_tls_trusts_the_authorities_of_its_file_and_no_others(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the system's do not count then: an API server of Kubernetes has an authority of its own."""
    pem = {}
    for name in ("this", "other"):
        key, certificate = self_signed(name)
        pem[name] = tmp_path / name
        private = load_der_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pem[name].write_bytes(private + ssl.DER_cert_to_PEM_cert(certificate).encode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem["this"])
    server = HTTPServer(("127.0.0.1", 0), Calls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("RECONCILER_ALLOW", f"hook:{url}/*")
    try:
        trusting = replace(call(url, "/a"), ca=str(pem["this"]))
        assert run_hook(trusting, FACTS) == f"PUT {url}/a answered 204"
        assert f", trusts {pem['this']}," in trusting.words
        for ca in (str(pem["other"]), ""):
            with pytest.raises(ReconcilerError, match=r"no answer: .*certificate verify failed"):
                run_hook(replace(trusting, ca=ca), FACTS)
        for ca in (str(tmp_path / "absent"), str(tmp_path)):
            with pytest.raises(ReconcilerError, match=f"the authorities in {ca} cannot be read"):
                run_hook(replace(trusting, ca=ca), FACTS)
        assert len(Calls.seen) == 1
    finally:
        server.shutdown()
        server.server_close()


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "address"
    hook = CutoverHook(HookKind.FILE, str(path), text="west ${env:TOKEN}\n")
    assert run_hook(hook, FACTS) == f"{path} is written"
    assert path.read_text() == "west s3cret-word\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with path.open() as before:
        run_hook(hook, FACTS)
        assert before.read() == "west s3cret-word\n", "who has it open reads the old one to its end"
        assert os.fstat(before.fileno()).st_ino != path.stat().st_ino
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["address"]
    with pytest.raises(ReconcilerError, match="cannot be written: No such file"):
        run_hook(CutoverHook(HookKind.FILE, str(tmp_path / "absent" / "file"), text="x"), FACTS)

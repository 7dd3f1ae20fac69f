"""A master is asked over its port and its page; what does not answer is unknown."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.machine import addresses_of, machine, spark_master, standalone
from reconciler.errors import Unknown

PAGE = {
    "status": "ALIVE",
    "workers": [
        {"state": "ALIVE", "cores": 4, "coresfree": 1},
        {"state": "ALIVE", "cores": 4, "coresfree": 2},
        {"state": "DEAD", "cores": 4, "coresfree": 4},
    ],
    "activeapps": [
        {"name": "mirror prod/west", "cores": 4},
        {"name": "somebody else's", "cores": 1},
    ],
}


@contextmanager
def page(content: bytes) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.fixture
def port() -> Iterator[int]:
    """Something takes connections there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://h:7077", (("h", 7077),)),
        ("spark://a:7077,b:7078", (("a", 7077), ("b", 7078))),
        ("spark://[::1]:7077", (("::1", 7077),)),
        ("k8s://https://api.example.net:6443", (("api.example.net", 6443),)),
        ("k8s://api.example.net", (("api.example.net", 443),)),
        ("k8s://http://api.example.net", (("api.example.net", 80),)),
        ("yarn", ()),
    ],
)
def test_a_masters_name_holds_its_addresses(master: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert addresses_of(master) == addresses


def test_workers_free_cores_and_our_own_are_counted(port: int) -> None:
    with page(json.dumps(PAGE).encode()) as shown:
        found = spark_master(f"spark://127.0.0.1:{port}", "mirror prod/west", 5.0, shown)
    assert (found.workers, found.free_cores, found.own_cores) == (2, 3, 4)
    assert found.reached == f"127.0.0.1:{port} takes connections"


def test_a_master_in_standby_is_passed_over(port: int) -> None:
    with page(json.dumps(PAGE | {"status": "STANDBY"}).encode()) as shown:
        lost = spark_master(f"spark://127.0.0.1:{port}", "x", 5.0, shown)
    assert isinstance(lost.reached, Unknown)
    assert "is STANDBY, not ALIVE" in lost.reached.error


def test_a_page_that_is_missing_or_says_something_else_leaves_the_cores_unknown(port: int) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        silent = spark_master(f"spark://127.0.0.1:{port}", "x", 2.0, closed.getsockname()[1])
    assert isinstance(silent.free_cores, Unknown)
    assert "does not say how many cores are free" in silent.free_cores.error
    for content in (b"[]", b"<html>", b'{"status": "ALIVE"}'):
        with page(content) as shown:
            strange = spark_master(f"spark://127.0.0.1:{port}", "x", 2.0, shown)
        assert isinstance(strange.free_cores, Unknown), content
    assert isinstance(standalone("m", "r", {"workers": [{}], "activeapps": []}, "x").free_cores, Unknown)


def test_what_is_no_web_server_on_the_pages_port_leaves_the_cores_unknown(port: int) -> None:
    def greet(server: socket.socket) -> None:
        came, _ = server.accept()
        came.recv(1000)
        came.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        came.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=greet, args=(server,), daemon=True).start()
        found = spark_master(f"spark://127.0.0.1:{port}", "x", 5.0, server.getsockname()[1])
    assert found.reached == f"127.0.0.1:{port} takes connections"
    assert isinstance(found.free_cores, Unknown)
    assert "SSH-2.0" in found.free_cores.error


def test_a_master_out_of_reach_is_named_with_its_address() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        lost = spark_master(f"spark://{place}", "x", 2.0).reached
    assert isinstance(lost, Unknown)
    assert lost.error.startswith(f"spark://{place} cannot be used: {place}: ")


def test_what_cannot_be_looked_at_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system refuses a long name as it refuses the look into a folder of another user: by an error."""
    place = tmp_path / ("x" * 300)
    monkeypatch.setenv("JAVA_HOME", str(place))
    assert isinstance(machine(place).free_bytes, Unknown)
    assert isinstance(spark_master("yarn", "x", 1.0, environ={"HADOOP_CONF_DIR": str(place)}).reached, Unknown)


def test_yarn_is_found_by_a_folder_that_has_its_configuration(tmp_path: Path) -> None:
    for environ in ({}, {"HADOOP_CONF_DIR": str(tmp_path)}):
        assert isinstance(spark_master("yarn", "x", 1.0, environ=environ).reached, Unknown)
    (tmp_path / "yarn-site.xml").touch()
    found = spark_master("yarn", "x", 1.0, environ={"YARN_CONF_DIR": str(tmp_path)})
    assert (found.reached, found.free_cores) == (f"YARN_CONF_DIR is {tmp_path}, which has yarn-site.xml", None)


def test_of_kubernetes_only_the_api_servers_port_is_asked(port: int) -> None:
    found = spark_master(f"k8s://https://127.0.0.1:{port}", "x", 2.0)
    assert (found.reached, found.free_cores) == (f"127.0.0.1:{port} takes connections", None)


@pytest.mark.parametrize(
    ("jar", "words"),
    [
        ("spark-core_2.12-3.5.6-amzn-2.jar", "Spark 3.5.6-amzn-2 of SPARK_HOME: "),
        ("spark-core_2.13-4.3.0.jar", "Spark 4.3.0 of SPARK_HOME: "),
        ("other.jar", "spark-submit of SPARK_HOME: "),
    ],
)
def test_the_release_of_spark_home_is_that_of_its_jar(
    jar: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (tmp_path / "bin" / "spark-submit", tmp_path / "jars" / jar):
        file.parent.mkdir()
        file.touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert machine(tmp_path).spark == f"{words}{tmp_path / 'bin' / 'spark-submit'}"

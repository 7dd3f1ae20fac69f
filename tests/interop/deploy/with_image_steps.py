"""Every step of the Containerfile, run without a container engine, and what the image does. `make test-image`, as root.

Its base is this machine's Debian without Java and with a Python of its own in /usr/local, above which a mount namespace
keeps all that the steps write. Not shown: that the digest can be pulled, and what an engine itself does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

CONTAINERFILE = ROOT / "docs" / "mirror" / "deploy" / "Containerfile"
CONTEXT = ROOT / "build" / "image"
USER = 10001


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of each, without comments and continued lines."""
    lines = [line for line in CONTAINERFILE.read_text("utf-8").splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


@dataclass
class Image:
    """``root``: where it lies for ``keeper``, the process that keeps the mounts."""

    root: Path
    keeper: int
    environ: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    texts: dict[str, str] = field(default_factory=dict)

    def words(self, *command: str, user: int, read_only: bool) -> list[str]:
        """By which a process is started in it, as process 1 of its own."""
        script = f"mount -t proc proc {self.root}/proc\n"
        if read_only:
            script += (
                f"for each in tmp var/lib/reconciler; do mount -t tmpfs -o mode=1777 tmpfs {self.root}/$each; done\n"
            )
            script += f"mount -o remount,ro {self.root}\n"
        start = f"cd {self.folder} && exec {shlex.join(command)}"
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.environ.items())
        script += f"exec chroot --userspec={user}:{user} {self.root} env -i {variables} sh -c {shlex.quote(start)}"
        entered = ["nsenter", "--mount", "--target", str(self.keeper)]
        return [*entered, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script]

    def run(self, *command: str, code: int = 0, environ: dict[str, str] | None = None) -> str:
        """As an engine does with a read-only root: the entry point, and what it was given."""
        words = [*json.loads(self.texts["ENTRYPOINT"]), *(command or json.loads(self.texts["CMD"]))]
        return self.asked(words, code, environ or {})

    def asked(self, words: list[str], code: int = 0, environ: dict[str, str] | None = None) -> str:
        image = Image(self.root, self.keeper, {**self.environ, **(environ or {})}, self.folder)
        done = subprocess.run(
            image.words(*words, user=USER, read_only=True), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def base(folder: Path) -> tuple[Image, subprocess.Popen[bytes]]:
    """What stands in for the base image."""
    assert os.geteuid() == 0, "steps write into a file system of their own, which takes root"
    root, layers = folder / "root", folder / "layers"
    root.mkdir()
    layers.mkdir()
    python = Path(sys.base_prefix)
    script = f"""
mount -t tmpfs tmpfs {layers}
mkdir {layers}/upper {layers}/work
mount -t overlay overlay -o lowerdir=/,upperdir={layers}/upper,workdir={layers}/work {root}
mount --rbind /dev {root}/dev
rm -rf {root}/usr/local
mkdir -p {root}/usr/local/bin {root}/usr/local/lib
cp {python}/bin/python3.11 {root}/usr/local/bin/python
cp -a {python}/include {root}/usr/local/
cp -a {python}/lib/libpython3* {root}/usr/local/lib/ 2>/dev/null || true
mkdir {root}/usr/local/lib/python3.11
(cd {python}/lib/python3.11 && tar c --exclude=./site-packages --exclude=./test --exclude=__pycache__ .) |
    tar x -C {root}/usr/local/lib/python3.11
echo ready
exec sleep infinity
"""
    words = ["unshare", "--mount", "--propagation", "private", "--kill-child", "--fork", "sh", "-ec", script]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    inner = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    path = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    return Image(root, inner, {"PATH": path}), process


def step(image: Image, text: str) -> None:
    outside = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    building = Image(image.root, image.keeper, {**image.environ, **outside, "HOME": "/root"}, image.folder)
    done = subprocess.run(
        building.words("sh", "-c", text, user=0, read_only=False),
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"RUN {text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def copied(image: Image, rest: str) -> None:
    words = [word for word in rest.split() if not word.startswith("--")]
    mode = next((word.removeprefix("--chmod=") for word in rest.split() if word.startswith("--chmod=")), "")
    *sources, target = words
    found = [path for source in sources for path in sorted(CONTEXT.glob(source))]
    assert len(found) >= len(sources), (sources, found)
    inside = f"/proc/{image.keeper}/root{image.root}{target}"
    Path(inside).mkdir(parents=True, exist_ok=True)
    for path in found:
        made = Path(shutil.copy(path, inside))
        if mode:
            made.chmod(int(mode, 8))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    made, keeper = base(folder)
    try:
        step(made, "ldconfig && python -m ensurepip && apt-get purge --yes 'openjdk-*' && ! command -v java")
        for word, rest in instructions():
            match word:
                case "FROM":
                    assert re.search(r":[^@]+@sha256:[0-9a-f]{64}$", rest), "a name for people, a digest for machines"
                case "RUN":
                    step(made, rest)
                case "COPY":
                    copied(made, rest)
                case "WORKDIR":
                    made.folder = rest
                case "ENV":
                    made.environ |= dict(each.split("=", 1) for each in shlex.split(rest))
                case "USER":
                    made.user = rest
                case _:
                    made.texts[word] = rest
        yield made
    finally:
        keeper.kill()
        keeper.wait(20)


def test_the_container_file_is_lint_clean(tmp_path: Path) -> None:
    hadolint = ROOT / "build" / "release-venv" / "bin" / "hadolint"
    subprocess.run([hadolint, "--failure-threshold", "style", CONTAINERFILE], check=True)
    careless = tmp_path / "Containerfile"
    careless.write_text("FROM debian\nRUN cd /tmp && apt-get install x\n")
    said = subprocess.run([hadolint, careless], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "DL3006" in said.stdout


def test_it_runs_the_command_as_a_user_of_its_own_on_a_read_only_root(image: Image) -> None:
    assert image.user == str(USER)
    assert "Usage: reconciler" in image.run()
    said = image.run("reconciler", "version")
    assert "4.3" in next(line for line in said.splitlines() if line.startswith("spark")), said
    assert "17" in next(line for line in said.splitlines() if line.startswith("java")), said
    tried = "id -u; touch /opt/x /usr/x 2>/dev/null || echo refused; touch /tmp/x /var/lib/reconciler/x && echo written"
    assert image.run("sh", "-c", tried).split() == [str(USER), "refused", "written"]
    modules = "import reconciler, reconciler_mirror, pyspark; print(reconciler.__file__)"
    assert image.run("python", "-c", modules).startswith("/usr/local/lib/python3.11/site-packages/")


def test_spark_starts_in_it(image: Image) -> None:
    said = image.run("/opt/spark/bin/spark-submit", "--version")
    assert "version 4.3" in said, said
    assert "--run-dir" in image.run("python", "/opt/reconciler/mirror_job.py", "--help")


def test_executors_and_drivers_are_started_as_spark_asks(image: Image) -> None:
    driver = {"SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1"}
    assert "version 4.3" in image.run("driver", "--version", environ=driver)
    spark = {
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=1", "SPARK_EXECUTOR_MEMORY": "128m", "SPARK_EXECUTOR_CORES": "1",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1", "SPARK_EXECUTOR_ID": "1",
        "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "executor",
    }  # fmt: skip
    said = image.run("executor", code=1, environ=spark)
    assert "KubernetesExecutorBackend" in said, said
    assert "127.0.0.1:1" in said, "it looks for its driver"


def test_process_1_passes_signals_on_and_reaps(image: Image) -> None:
    assert image.run("sh", "-c", "exit 7", code=7) == ""
    assert "no-such-command" in image.run("no-such-command", code=127)
    orphans = "for i in 1 2 3; do (sleep 0.1 & ) ; done; sleep 1; ps -o stat= -A | grep -c Z"
    assert image.run("sh", "-c", orphans, code=1).strip() == "0", "no zombie is left"
    words = [*json.loads(image.texts["ENTRYPOINT"]), "python", "-c"]
    program = (
        "import signal,sys,time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(42))\nprint('up', flush=True)\n"
    )
    command = image.words(*words, program + "time.sleep(60)", user=USER, read_only=True)
    for asks, code in ((program + "time.sleep(60)", 42), ("print('up', flush=True); import time; time.sleep(60)", 143)):
        command[-1:] = image.words(*words, asks, user=USER, read_only=True)[-1:]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        began = time.monotonic()
        os.kill(int(children[0]), signal.SIGTERM)
        assert process.wait(20) == code
        assert time.monotonic() - began < 10, "an engine would kill it after 10 s"


def test_its_health_is_what_status_says(image: Image) -> None:
    words = json.loads(image.texts["HEALTHCHECK"].partition("CMD ")[2])
    assert image.asked(words) == "", "no environment, as in an executor"
    text = "clusters: {east: {bootstrap_servers: ['127.0.0.1:1']}}"
    make = f"mkdir /tmp/prod && echo {shlex.quote(text)} > /tmp/prod/clusters.yaml && {shlex.join(words)}"
    said = image.asked(["sh", "-c", make], 1, {"RECONCILER_HEALTH": "/tmp/prod"})
    assert "UNKNOWN" in said or "127.0.0.1:1" in said, said

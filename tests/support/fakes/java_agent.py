"""Classes of ours in a broker, whose jars are held to digests: as an agent, which the JVM puts on its class path."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from reconciler_sandbox.install import jars
from reconciler_sandbox.profiles import QUICK_START


def agent(folder: Path, *sources: Path) -> Path:
    """A jar in ``folder``; the first source has ``premain``."""
    classes = folder / "classes"
    words = ["javac", *(f"-J{flag}" for flag in QUICK_START), "-Xlint:all,-processing,-classfile"]
    words += ["-cp", f"{jars.ensure()}/*", "-d", str(classes), *map(str, sources)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    jar = folder / "agent.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nPremain-Class: {sources[0].stem}\n")
        for file in sorted(classes.glob("*.class")):
            archive.write(file, file.name)
    return jar

"""Packs installed Python packages into an archive for a mirror's executors, and for its driver on a cluster.

It holds ``site-packages`` and a script ``bin/python``, which finds an interpreter of the same minor version on the
executor and puts these packages before Spark's. It holds no interpreter, because that is not portable between machines
(shared libraries, C library). The same packages give the same bytes.
"""

import gzip
import hashlib
import importlib.metadata
import io
import platform
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import RunnerError

PACKAGES = ("confluent-kafka", "cramjam", "crc32c", "google-re2", "kafka-python", "prometheus-client", "structlog")
"""Third-party packages that tasks import, and prometheus-client, which a driver on the cluster imports; none depends on
another."""

_PYTHON = """\
#!/bin/sh
# The executors' Python: version {version}, with the packages of this archive.
here=$(cd "$(dirname "$0")/.." && pwd)
for python in "$RECONCILER_EXECUTOR_PYTHON" python{version} /usr/local/bin/python{version} {own} python3; do
  [ -n "$python" ] || continue
  case "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" in
    {version}) PYTHONPATH="$here/site-packages${{PYTHONPATH:+:$PYTHONPATH}}" exec "$python" "$@" ;;
  esac
done
echo "no Python {version} on $(hostname): install it, or name one by spark.executorEnv.RECONCILER_EXECUTOR_PYTHON" >&2
exit 127
"""


@dataclass(frozen=True, slots=True)
class PythonArchive:
    """A Python with all packages that executors need, for clusters whose machines have none."""

    path: Path
    python: str
    """Its version, which the driver's must equal."""
    machine: str
    """Architecture that it runs on."""
    packages: tuple[tuple[str, str], ...]
    """Names and versions."""
    size: int
    """In bytes, compressed."""


def pack(out: Path | None) -> PythonArchive:
    """Writes the archive to ``out``, by default to the working directory under a name with its digest. Raises
    RunnerError."""
    script = _PYTHON.format(version=_version(), own=Path(sys.executable).resolve())
    contents = dict(sorted({"bin/python": script.encode(), **dict(_files())}.items()))
    data = _tar(contents)
    version, machine = _version(), platform.machine()
    name = f"mirror-python-{version}-{machine}-{hashlib.sha256(data).hexdigest()[:8]}.tar.gz"
    path = (out or Path(name)).absolute()
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise RunnerError(
            f"{path} cannot be written: {error.strerror or error}",
            "Without its packages no executor can copy; nothing was written.",
            "Name a place that this user may write to: --out FILE.",
        ) from None
    return PythonArchive(
        path, version, machine, tuple((name, _distribution(name).version) for name in PACKAGES), len(data)
    )


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise RunnerError(
            f"the package {name} is not installed here", "A mirror's tasks import it.", f"Run pip install {name}."
        ) from None


def _files() -> Iterator[tuple[str, bytes]]:
    for name in PACKAGES:
        distribution = _distribution(name)
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                yield f"site-packages/{file.as_posix()}", Path(str(distribution.locate_file(file))).read_bytes()


def _tar(contents: dict[str, bytes]) -> bytes:
    """A reproducible tar: sorted names, no times. The archive's name contains its digest, by which Spark's caches tell
    versions apart."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name == "bin/python" or ".so" in name else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()

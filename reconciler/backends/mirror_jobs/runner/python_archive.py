"""The archive of Python packages that a mirror's executors need, and its driver on a cluster: of what is installed.

It holds ``site-packages`` and a script ``bin/python`` that finds an interpreter of this very minor version on the
executor and puts the packages before what Spark brings. An interpreter itself is not portable between machines (its
libraries, its C library), so none is in it. The same packages make the same bytes.
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
"""What a task imports that is neither ours nor Spark's, and prometheus-client, which a driver on the cluster imports,
too; none of them needs another."""

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
    """``packages``: name and version of each."""

    path: Path
    python: str
    machine: str
    packages: tuple[tuple[str, str], ...]
    size: int


def pack(out: Path | None) -> PythonArchive:
    """Writes it to ``out``, else into the working directory under a name with its digest. Raises RunnerError."""
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
    """The same bytes for the same contents: sorted names, no times. The archive's name has its digest, by which Spark
    and its caches know it."""
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

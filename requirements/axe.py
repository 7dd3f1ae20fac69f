"""``python -m requirements.axe FOLDER``: axe-core, which judges pages in `make test-pages`, by npm and its digest."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.10.3"
INTEGRITY = "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
SCRIPT = "axe.min.js"


def fetch(folder: Path) -> Path:
    """The script in ``folder``, fetched once. Raises RuntimeError for other bytes than those that were reviewed."""
    script = folder / f"axe-{VERSION}.min.js"
    if script.exists():
        return script
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", f"axe-core@{VERSION}", "--pack-destination", place]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        (archive,) = Path(place).iterdir()
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != INTEGRITY:
            raise RuntimeError(f"axe-core {VERSION} has the digest {digest}, expected {INTEGRITY}: it is not used")
        with tarfile.open(archive) as files:
            member = files.extractfile(f"package/{SCRIPT}")
            assert member is not None
            folder.mkdir(parents=True, exist_ok=True)
            script.write_bytes(member.read())
    return script


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))

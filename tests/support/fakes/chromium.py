"""A headless Chromium, spoken to over a pipe by its DevTools protocol: no driver and no package is needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
WITHIN = 60.0
_WITH_PIPES = """
import os, sys
ours = [os.dup(int(number)) for number in sys.argv[1:3]]
os.dup2(ours[0], 63), os.dup2(ours[1], 62), os.dup2(63, 3), os.dup2(62, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from its descriptor 3 and answers on 4."""


def program() -> str:
    """Raises RuntimeError where there is none: a test that was not run is no test that passed."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise RuntimeError("no Chromium is installed: apt-get install chromium")


class Chromium:
    """One browser with one page. Use as a context manager. ``problems``: what the page logged or was refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = ""
        self.problems: list[str] = []

    def __enter__(self) -> Chromium:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Without its own sandbox, which a container does not allow; it loads nothing but our pages.
        options = (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
            "--hide-scrollbars", f"--user-data-dir={self._folder}", "about:blank",
        )  # fmt: skip
        command = (sys.executable, "-c", _WITH_PIPES, str(theirs_in), str(theirs_out), program(), *options)
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=quiet, stderr=quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)

    def show(
        self, address: str, width: int = 1400, height: int = 1000, dark: bool = False, scripts: bool = True
    ) -> None:
        scheme = "dark" if dark else "light"
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500
        )
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of ``expression`` on the page, also where the page's own scripts are off."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        end = time.monotonic() + WITHIN
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} did not come true: {self.run('document.body.innerText')}")
            time.sleep(0.05)

    def picture(self, path: Path, height: int | None = None) -> None:
        """``path`` ends in .png or .webp. ``height``: of what is kept, from the top; all of the page when left out."""
        more: dict[str, Any] = {"quality": 85} if path.suffix == ".webp" else {}
        if height is not None:
            width = self.run("innerWidth")
            more["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        form = path.suffix.removeprefix(".")
        image = self._call("Page.captureScreenshot", captureBeyondViewport=True, format=form, **more)["data"]
        path.write_bytes(base64.b64decode(image))

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._noted(answer)

    def _noted(self, event: dict[str, Any]) -> None:
        what: dict[str, Callable[[dict[str, Any]], str]] = {
            "Log.entryAdded": lambda told: str(told["entry"]["text"]),
            "Runtime.exceptionThrown": lambda told: str(told["exceptionDetails"]),
            "Runtime.consoleAPICalled": str,
        }
        if event.get("method") in what:
            self.problems.append(what[event["method"]](event["params"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self._rest += piece
        whole, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(whole)
        return message

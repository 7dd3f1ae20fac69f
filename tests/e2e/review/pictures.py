"""``make pictures``: docs/begin/pictures anew, of the program's own pages in a headless Chromium, and the drawings of
``docs.site.pictures``, which need none."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs.site.pictures import pictures
from reconciler.engine.plan.amounts import amounts
from reconciler.model.live import LiveState
from reconciler.model.options import MapFormat
from reconciler.operations.serve.connections import Access
from reconciler.operations.serve.run import LiveApp, Renderer, answering
from reconciler.render.map.formats import map_in
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.sections import AboutPlan
from tests.support.documents.live import described_view, standings
from tests.support.documents.maps import changed_plan, drawn, fans
from tests.support.documents.plans import measured
from tests.support.fakes.chromium import Chromium
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "begin" / "pictures"
HEIGHTS = {1400: 1000, 390: 844}
"""Width of a window -> height of what is kept of its page, in pixels."""
PICTURES = (
    ("live", 1400, "light"),
    ("live", 1400, "dark"),
    ("live", 390, "dark"),
    ("map", 1400, "light"),
    ("map", 390, "dark"),
    ("plan", 1400, "light"),
    ("plan", 390, "dark"),
    ("plan-on-the-map", 1400, "light"),
)
"""Page, width of the window, and colours."""


def files() -> dict[str, str]:
    plan = measured()
    return {
        "map": map_in(fans(), MapFormat.HTML),
        "plan-on-the-map": map_in(drawn(changed_plan()), MapFormat.HTML),
        "plan": plan_html(plan, about=AboutPlan(amounts=amounts(plan, (), {}, LiveState({}, {})))),
    }


@contextmanager
def served() -> Iterator[str]:
    view, stop = described_view(now_ms()), threading.Event()
    app = LiveApp(Renderer(lambda: view, standings, now_ms), stop).application(Access())
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        stop.set()


def now_ms() -> int:
    return int(time.time() * 1000)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for drawing, text in pictures().items():
        (FOLDER / drawing).write_text(text, "utf-8")
    with tempfile.TemporaryDirectory() as folder, served() as live, Chromium(Path(folder) / "profile") as browser:
        addresses = {"live": live}
        for name, text in files().items():
            page = Path(folder) / f"{name}.html"
            page.write_text(text, "utf-8")
            addresses[name] = f"file://{page}"
        for name, width, scheme in PICTURES:
            browser.show(addresses[name], width, dark=scheme == "dark")
            tall = browser.run("document.documentElement.scrollHeight")
            browser.picture(FOLDER / f"{name}-{width}-{scheme}.webp", min(HEIGHTS[width], tall))
    for path in sorted(FOLDER.glob("*.webp")):
        sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()

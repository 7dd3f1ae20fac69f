"""``python -m bench.live``: what the live page costs with 10,000 topics on each of three clusters and 200 flows.

No broker: clusters and jobs are values, as they are after a look. Asked through the real server on loopback.
"""

from __future__ import annotations

import argparse
import http.client
import resource
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.engine.drift.causes import NOTHING
from reconciler.engine.plan.build import plan
from reconciler.engine.topic_list import topic_list
from reconciler.engine.topology_map import topology_map
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Topic, Topology, by_name
from reconciler.model.live import LiveMirror, LiveState
from reconciler.operations.serve.connections import Access
from reconciler.operations.serve.run import LiveApp, Renderer, answering
from reconciler.render.live.view import ClustersSeen, JobsSeen, LiveReading, LiveView, Reviewed
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.sections import AboutPlan
from reconciler.render.reports.status import StatusInputs
from reconciler.replication.status import FlowStatus
from tests.support.documents.live_values import live_cluster, live_mirror, live_topic
from tests.support.fakes.chromium import Chromium

NAMES = ("east", "west", "hub")
PAGES = ("/", "/flows", "/topics", "/topics?q=topic-0999&cluster=hub", "/plan", "/drift", "/status.json")


def declared(topics: int, flows: int) -> Topology:
    clusters = by_name([Cluster(name, (f"{name}:9092",), region=name) for name in NAMES])
    declared_topics = by_name(
        [Topic(f"topic-{n:05}", NAMES, partitions=1, replication_factor=1, configs={}) for n in range(topics)]
    )
    ends = [(NAMES[n % 3], NAMES[(n + 1) % 3]) for n in range(flows)]
    lanes = by_name([Flow(f"flow-{n:03}", *ends[n], (f"other-{n:05}",)) for n in range(flows)])
    mirrors = by_name([Mirror(name, tuple(f.name for f in lanes.values() if f.target == name)) for name in NAMES])
    return Topology("large", clusters, declared_topics, lanes, mirrors)


def live(topology: Topology) -> LiveState:
    topics = {name: live_topic(name) for name in topology.topics}
    clusters = {name: live_cluster(name, topics, brokers=3) for name in NAMES}
    mirrors: dict[str, LiveMirror | Unknown] = {}
    for name, mirror in topology.mirrors.items():
        mirrors[name] = live_mirror(
            name, [FlowStatus(flow, "f", "running", 1, 6, 9, 1e3, 1e6, 17, 0.1) for flow in mirror.flows]
        )
    return LiveState(clusters, mirrors)


def view(topology: Topology, seen: LiveState) -> LiveView:
    made = plan(topology, seen)
    drawn = topology_map(topology, seen, made)
    now = now_ms()
    return LiveView(
        topology,
        LiveReading(JobsSeen(seen.mirrors), now),
        LiveReading(ClustersSeen(seen.clusters, drawn, topic_list(topology, seen)), now),
        lock=LiveReading(StatusInputs(None), now),
        review=LiveReading(Reviewed(made, drawn, NOTHING), now),
    )


def now_ms() -> int:
    return int(time.time() * 1000)


@contextmanager
def served(shown: LiveView) -> Iterator[int]:
    renderer = Renderer(lambda: shown, lambda flow: Unknown(flow, "not asked"), now_ms)
    app = LiveApp(renderer, threading.Event()).application(Access())
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener):
        yield listener.getsockname()[1]


def asked(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
    return len(body)


def painted(address: str, rounds: int) -> list[float]:
    """Milliseconds from the request to the first paint with content, each in a Chromium that has nothing kept."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, Chromium(Path(folder)) as browser:
            browser.show(address)
            entry = "performance.getEntriesByName('first-contentful-paint')[0]"
            browser.until(f"{entry} !== undefined")
            found.append(float(browser.run(f"{entry}.startTime")))
    return found


def timed(ask: Callable[[], int], rounds: int) -> tuple[int, list[float]]:
    size, seconds = 0, []
    for _ in range(rounds):
        time.sleep(1.05)  # a page is rendered once a second
        began = time.perf_counter()
        size = ask()
        seconds.append(time.perf_counter() - began)
    return size, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000, help="on each of three clusters")
    parser.add_argument("--flows", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--browser", action="store_true", help="also the first paint in a headless Chromium")
    given = parser.parse_args()
    topology = declared(given.topics, given.flows)
    seen = live(topology)
    before = time.process_time()
    shown = view(topology, seen)
    print(f"a view of {given.topics:,} topics x 3, {given.flows} flows: {time.process_time() - before:.2f} s of CPU")
    nothing = LiveState({name: live_cluster(name, {}, brokers=3) for name in NAMES}, seen.mirrors)
    for made in (plan(topology, seen), plan(topology, nothing)):
        before = time.process_time()
        size = len(plan_html(made, about=AboutPlan(drawn=topology_map(topology, seen, made))).encode())
        took = time.process_time() - before
        print(f"plan page as a file, {len(made.changes):,} changes: {size:,} bytes, {took:.2f} s of CPU")
    print("| page | bytes | ms, median | least | most |\n|---|---|---|---|---|")
    with served(shown) as port:
        for path in PAGES:
            size, seconds = timed(lambda path=path: asked(port, path), given.rounds)  # type: ignore[misc]
            least, most = min(seconds) * 1e3, max(seconds) * 1e3
            print(f"| `{path}` | {size:,} | {statistics.median(seconds) * 1e3:.0f} | {least:.0f} | {most:.0f} |")
        if given.browser:
            for path in PAGES[:4]:
                paints = painted(f"http://127.0.0.1:{port}{path}", given.rounds)
                print(
                    f"first paint of {path}: {statistics.median(paints):.0f} ms, {min(paints):.0f} to {max(paints):.0f}"
                )
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

"""The sandbox commands ``up``, ``down``, ``status`` and ``env``."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports, processes
from reconciler_sandbox.brokers import up_down as brokers
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.handles import Sandbox
from reconciler_sandbox.paths import STATE, home_of
from reconciler_sandbox.profiles import BLOCK, PORT_VARIABLE, PROFILES, cluster_id_of, layout

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Up:
    """``already`` is true when nothing had to be started."""

    sandbox: Sandbox
    already: bool


@dataclass(frozen=True, slots=True)
class StoppedProfile:
    profile: str
    brokers: int
    cleared: bool


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster as found on this machine; ``running`` and ``stopped`` are node ids, ``answering`` those that accept
    connections."""

    profile: str
    cluster: str
    bootstrap_servers: str
    cluster_id: str
    running: tuple[int, ...]
    stopped: tuple[int, ...]
    answering: tuple[int, ...]


def chosen_port(port: int | None, environ: Mapping[str, str] = os.environ) -> int | None:
    """The base of all ports: the argument, else SANDBOX_PORT, else None for the default ports. Raises SandboxError."""
    if port is None:
        text = environ.get(PORT_VARIABLE, "")
        if not text:
            return None
        if not text.isdecimal():
            raise SandboxError(f"{PORT_VARIABLE} is {text!r}, not a port number", todo="Set it to one such as 39000.")
        port = int(text)
    if not 1024 <= port <= 65536 - BLOCK:
        why = f"It takes {BLOCK} ports from there, and those below 1024 need a privileged user."
        todo = f"Choose one from 1024 to {65536 - BLOCK}."
        raise SandboxError(f"port {port} cannot be the base of the sandbox", why, todo)
    return port


def up(
    profile: str = "plain", port: int | None = None, heap: str | None = None, progress: Progress | None = None
) -> Up:
    """Starts the lasting clusters of a profile; data of an earlier run is kept. Safe to repeat. Raises SandboxError."""
    chosen = brokers.profile_named(profile)
    base = chosen_port(port)
    home = home_of(profile)
    guardian.sweep()
    present = brokers.found_in(home)
    if present is not None and processes.find(home):
        here = {name: handle.brokers for name, handle in present.clusters.items()}
        if here != layout(chosen, base):
            raise SandboxError(
                f"the sandbox {profile} runs already on other ports: "
                + ", ".join(f"{name} {handle.bootstrap_servers}" for name, handle in present.clusters.items()),
                "A running broker cannot change its port.",
                "Run `make down` first.",
            )
        if not brokers.nodes_down(present):
            return Up(present, already=True)
    return Up(brokers.bring_up(brokers.Launch(chosen, home, base, heap), progress or (lambda _: None)), already=False)


def down(profile: str | None = None, clear: bool = False) -> tuple[StoppedProfile, ...]:
    """Stops the lasting clusters of one profile or of all; ``clear`` also removes their data."""
    names = [brokers.profile_named(profile).name] if profile else list(PROFILES)
    present = [name for name in names if home_of(name).exists()]
    guardian.sweep()
    return tuple(StoppedProfile(name, brokers.take_down(home_of(name), clear), clear) for name in present)


def status(profile: str | None = None) -> tuple[ClusterState, ...]:
    """Every lasting cluster that has data here, running or not."""
    names = [brokers.profile_named(profile).name] if profile else list(PROFILES)
    sandboxes = [sandbox for name in names if (sandbox := brokers.found_in(home_of(name))) is not None]
    return tuple(state for sandbox in sandboxes for state in _states(sandbox))


def _states(sandbox: Sandbox) -> list[ClusterState]:
    idle = set(brokers.nodes_down(sandbox))
    states = []
    for name, handle in sandbox.clusters.items():
        stopped = tuple(broker.node_id for broker in handle.brokers if f"{name}/{broker.node_id}" in idle)
        running = tuple(broker.node_id for broker in handle.brokers if broker.node_id not in stopped)
        # A stopped broker's port may have been taken by another program.
        answering = tuple(b.node_id for b in handle.brokers if b.node_id in running and ports.answers(b.port))
        named = sandbox.profile, name, handle.bootstrap_servers, handle.cluster_id
        states.append(ClusterState(*named, running, stopped, answering))
    return states


def environment(profile: str) -> dict[str, str]:
    """Variables for the ``${env:...}`` references of topology files: passwords and paths. Raises SandboxError."""
    sandbox = brokers.found_in(home_of(brokers.profile_named(profile).name))
    if sandbox is None:
        why = "Its passwords are made at the first start."
        todo = f"Run `reconciler sandbox up --profile {profile}`."
        raise SandboxError(f"the sandbox {profile} was never started here", why, todo)
    return sandbox.secrets()


def other_ids(sandbox: Sandbox) -> SandboxError | None:
    """Data of an older release keeps the ids that it was made with, which no environment declares; None for all other
    data."""
    wanted = {name: cluster_id_of(sandbox.profile, name) for name in sandbox.clusters}
    kept = [handle for name, handle in sandbox.clusters.items() if handle.cluster_id != wanted[name]]
    if not kept:
        return None
    return SandboxError(
        f"the data in {_shown(sandbox.home)} was made by an older release, with other cluster ids: "
        + "; ".join(f"{handle.name} is {handle.cluster_id}, not {wanted[handle.name]}" for handle in kept),
        "Environments written for the sandbox declare the latter, and nothing is done on any other cluster.",
        f"Stop the mirrors on it (`make down`), then `reconciler sandbox down --profile {sandbox.profile} --clear`"
        " removes the data, and the next start makes it anew.",
    )


def render_up(result: Up) -> str:
    lines = [f"{result.sandbox.profile}: {'already up' if result.already else 'up'}"]
    for name, handle in result.sandbox.clusters.items():
        mtls = f", mTLS {handle.mtls_bootstrap_servers}" if handle.mtls_bootstrap_servers else ""
        mtls += f", Kerberos {handle.kerberos_bootstrap_servers}" if handle.kerberos_bootstrap_servers else ""
        lines.append(f"  {name}  {handle.bootstrap_servers}{mtls}  id {handle.cluster_id}")
    if result.sandbox.secrets():
        lines.append(f'  secrets: eval "$(reconciler sandbox env --profile {result.sandbox.profile})"')
    if (other := other_ids(result.sandbox)) is not None:
        lines.append("\n  ".join([*f"note: {other}".splitlines(), "To keep it, declare the ids that it has."]))
    return "\n".join(lines)


def render_down(stopped: tuple[StoppedProfile, ...]) -> str:
    lines = [
        f"{item.profile}: {item.brokers} broker{'' if item.brokers == 1 else 's'} stopped"
        + (", data removed" if item.cleared else "")
        for item in stopped
        if item.brokers or item.cleared
    ]
    return "\n".join(lines) or "nothing was running"


def render_status(states: tuple[ClusterState, ...]) -> str:
    if not states:
        return f"no sandbox in {_shown(STATE / 'clusters')}; `reconciler sandbox up` starts one"
    return "\n".join(
        f"{state.profile:<7} {state.cluster:<5} {_condition(state):<20} {state.bootstrap_servers} id {state.cluster_id}"
        for state in states
    )


def json_status(states: tuple[ClusterState, ...]) -> str:
    """As schemas/reports/sandbox.schema.json."""
    clusters = [
        {
            "profile": state.profile,
            "cluster": state.cluster,
            "bootstrap_servers": state.bootstrap_servers,
            "cluster_id": state.cluster_id,
            "brokers": {
                "answering": list(state.answering),
                "running": list(state.running),
                "stopped": list(state.stopped),
            },
        }
        for state in states
    ]
    document = {"format_version": 1, "kind": "sandbox", "exit_code": 0, "clusters": clusters}
    return json.dumps(document, indent=2, ensure_ascii=False)


def render_environment(variables: Mapping[str, str]) -> str:
    """Lines for a shell to evaluate."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


def _condition(state: ClusterState) -> str:
    total = len(state.running) + len(state.stopped)
    if not state.running:
        return "down"
    if len(state.answering) == total:
        return "up"
    return f"{len(state.answering)} of {total} brokers answer"


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

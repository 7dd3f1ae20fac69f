"""Runner of all mirrors of an environment: those that hosts keep are asked for there, others run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from reconciler.backends.mirror_jobs.host.ask import Asker, HostedMirror
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.runner.spark_submit import (
    OrderStop,
    Progress,
    SparkRunner,
    StatusReader,
)
from reconciler.errors import RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import LiveMirror
from reconciler.model.state.mirror_control import Document


class Hosts(Protocol):
    """The way to hosts, and what is sent to them."""

    def of(self, mirror: str) -> HostedMirror | None:
        """Of a mirror that is declared ``hosted``, or that a host was asked to keep; None for every other."""
        ...

    def submission(self, mirror: Mirror) -> Document:
        """What its hand-over says to spark-submit."""
        ...

    def asker(self) -> Asker: ...


class RoutedRunner(SparkRunner):
    """Asks ``hosts`` only where it must: an environment without hosts does not wait for any."""

    def __init__(
        self,
        state: Path,
        mirrors: Mapping[str, Mirror],
        status: StatusReader,
        unseen: Callable[[str], Unknown | None],
        require_heard: Callable[[str], None],
        *,
        hosts: Hosts,
        order_stop: OrderStop | None = None,
    ) -> None:
        super().__init__(state, mirrors, status, unseen, require_heard, order_stop=order_stop)
        self._hosts = hosts

    def observe(self, mirror: str) -> LiveMirror:
        hosted = self._hosted(mirror) if self._is_declared_hosted(mirror) else None
        return super().observe(mirror) if hosted is None else hosted.observe()

    def require_startable(self, mirrors: Iterable[str]) -> None:
        super().require_startable([name for name in mirrors if self._hosted(name) is None])

    def _start(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        hosted = self._hosted(mirror)
        if hosted is None:
            return super()._start(mirror, handover, progress)
        return hosted.run(handover, self._hosts.submission(self.mirrors[mirror]), self._hosts.asker(), progress)

    def _restart(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        hosted = self._hosted(mirror)
        if hosted is None:
            return super()._restart(mirror, handover, progress)
        return hosted.run(handover, self._hosts.submission(self.mirrors[mirror]), self._hosts.asker(), progress)

    def stop(self, mirror: str, progress: Progress) -> None:
        hosted = None if self._is_of_this_machine(mirror) else self._hosts.of(mirror)
        if hosted is not None and hosted.is_kept():
            hosted.stop(self._hosts.asker(), progress)
        else:
            super().stop(mirror, progress)

    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = (), goal: str = "") -> int:
        if goal and self._hosted(mirror) is not None:
            raise RunnerError(
                f"mirror {mirror} is kept by hosts, which cannot run it until it has caught up",
                "Only a job on this machine ends by itself.",
                "Stop it, take hosted away for the migration, and start it so from here.",
            )
        return super().launch(mirror, handover, folder, needs, goal)

    def _is_declared_hosted(self, mirror: str) -> bool:
        declared = self.mirrors.get(mirror)
        return declared is not None and declared.hosted

    def _is_of_this_machine(self, mirror: str) -> bool:
        """A job that ``apply`` keeps here, of a mirror that is not declared ``hosted``."""
        folders = (self.folder(mirror), self.other_folder(mirror))
        return not self._is_declared_hosted(mirror) and any(folder.supervisor_pid() for folder in folders)

    def _hosted(self, mirror: str) -> HostedMirror | None:
        """None: its job runs on this machine. One that is declared ``hosted`` never does: a host that cannot announce
        itself looks like no host."""
        return None if self._is_of_this_machine(mirror) else self._hosts.of(mirror)

"""The records of a mirror's runs in the status topic: read as they come, written one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import StatusPlace
from reconciler.replication.runs.driver_records import PARTS, Part, run_key, run_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.clients.status_topic import followed

_AGAIN_S = 1.0
_log = logs.logger("run")


class RunTopic:
    """``start`` it once, ``close`` it once. Safe for several threads."""

    def __init__(self, place: StatusPlace) -> None:
        self._place = place
        self._values: dict[tuple[str, Part], bytes] = {}
        self._moved: dict[tuple[str, Part], float] = {}
        self._guard = threading.Condition()
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._producer: Producer | None = None
        self._known = False
        self._out_of_touch = time.monotonic()
        self.trouble = ""
        """Why the topic cannot be read, or could not be read last."""

    def start(self) -> RunTopic:
        threading.Thread(target=self._run, name="run records", daemon=True).start()
        return self

    def await_known(self, patience_s: float) -> bool:
        """Until everything has been read that was there at the beginning."""
        with self._guard:
            return self._guard.wait_for(lambda: self._known, patience_s)

    def wait(self, seconds: float) -> None:
        """Until a record comes, for ``seconds`` at most."""
        with self._guard:
            self._guard.wait(seconds)

    def value(self, run: str, part: Part) -> bytes | None:
        with self._guard:
            return self._values.get((run, part))

    def values(self, part: Part) -> Mapping[str, bytes]:
        """By run."""
        with self._guard:
            return {run: value for (run, each), value in self._values.items() if each == part}

    def silent_s(self, run: str, part: Part) -> float:
        """How long no such record has come while the topic could be read: silence of the other side, not of ours."""
        with self._guard:
            return time.monotonic() - max(self._moved.get((run, part), 0.0), self._out_of_touch)

    def write(self, run: str, part: Part, value: bytes | None, patience_s: float = 10.0) -> str:
        """None deletes. Returns why it does not stand; empty when it does."""
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error.str())

        with self._writing:
            try:
                if self._producer is None:
                    self._producer = clients.plain_producer(self._place.cluster)
                key = run_key(self._place.key, run, part)
                self._producer.produce(self._place.topic, value, key, on_delivery=delivered)
                waiting = self._producer.flush(patience_s)
            except KafkaException as error:
                return str(error.args[0].str())
            except (LookupError, BufferError, SettingError) as error:
                return str(error)
        return failures[0] if failures else "no answer" if waiting else ""

    def delete(self, run: str) -> None:
        """What cannot be deleted stays; another run deletes it."""
        for part in PARTS:
            if self.value(run, part) is not None and self.write(run, part, None):
                return

    def close(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.is_set():
            troubles: list[KafkaError] = []
            try:
                with closing(clients.control_reader(self._place.cluster, troubles.append)) as consumer:
                    self._follow(consumer, troubles)
            except KafkaException as error:
                self._lost(error.args[0].str())
            except (LookupError, SettingError) as error:
                self._lost(str(error))
            self._end.wait(_AGAIN_S)

    def _lost(self, why: str) -> None:
        with self._guard:
            if why != self.trouble:
                _log.warning("the records of this run cannot be read; retrying", topic=self._place.topic, why=why)
            self.trouble = why

    def _follow(self, consumer: Consumer, troubles: list[KafkaError]) -> None:
        for message, complete in followed(consumer, self._place.topic, troubles):
            if self._end.is_set():
                return
            with self._guard:
                if message is not None:
                    self._take(message)
                if self.trouble or not self._known:
                    self._out_of_touch = time.monotonic()
                    if complete:
                        self._known, self.trouble = True, ""
                        self._guard.notify_all()

    def _take(self, message: Message) -> None:
        named = run_of(self._place.key, (message.key() or b"").decode(errors="replace"))
        if named is None:
            return
        value = message.value()
        if value is None:
            self._values.pop(named, None)
        else:
            self._values[named] = value
        self._moved[named] = time.monotonic()
        self._guard.notify_all()

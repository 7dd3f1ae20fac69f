"""A librdkafka connection to one cluster as one principal: settings, secrets, logs, timeouts.

Secrets are resolved here, at the moment of connecting, and are cut out of every message that leaves.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from reconciler.backends.connections.credentials import client_settings, secrets_in, speaker_of
from reconciler.backends.connections.dial import tls_refusal, unexpected_tls
from reconciler.backends.connections.errors import (
    DESCRIBE_CLUSTER,
    Asked,
    authentication,
    bad_settings,
    describe_topic,
    translate,
    unreachable,
)
from reconciler.errors import ClusterError
from reconciler.kafka.client.auth.oauth import librdkafka_settings
from reconciler.kafka.client.auth.supported_settings import not_by_librdkafka
from reconciler.kafka.client.auth.tls import unreadable_file
from reconciler.model.environment.topology import Cluster, Principal

CONNECT_SECONDS = 10.0
GRACE_SECONDS = 0.5
REFUSED_SECONDS = 1.5
"""Every address refused for this long, over several attempts, means: nothing listens."""
REQUEST_SECONDS = 30.0
LOOK_AROUND_SECONDS = 1.5

_log = logging.getLogger("reconciler.kafka")
_AFTER = re.compile(r" \(after \d+ms in state \w+\)")
_ALERT = "SSL alert number"  # a broker that refuses a client certificate says so after the handshake (TLS 1.3)
_AUTHENTICATION_CODES = (KafkaError._AUTHENTICATION, KafkaError._SSL)


class DebugLog:
    """librdkafka's log lines, all at debug level: what a user must know comes as an error."""

    def log(self, _level: int, message: str, *args: object) -> None:
        _log.debug(message, *args)


class ThrottleEvents:
    """What the client reports about its connections on its own. Holds no client: see ``AdminConnection.close``.

    ``reasons``: each report once, in order. ``refused_since``: when all addresses failed for the first time since
    ``forget``. ``authentication``: what a broker said about our login or certificate; ``tls``: it was about TLS.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = secrets
        self.reasons: dict[str, None] = {}
        self.authentication: str | None = None
        self.tls = False
        self.refused_since: float | None = None
        self.throttled_until = 0.0

    def __call__(self, error: KafkaError) -> None:
        words = _AFTER.sub("", self.clean(error.str()))
        if error.code() in _AUTHENTICATION_CODES or _ALERT in words:
            self.authentication = words
            self.tls = error.code() == KafkaError._SSL
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.refused_since = self.refused_since or time.monotonic()
        else:
            self.reasons[words] = None

    def throttled(self, event: Any) -> None:
        """``event``: confluent_kafka.ThrottleEvent, its time in seconds."""
        self.throttled_until = max(self.throttled_until, time.monotonic() + event.throttle_time)

    def clean(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def forget(self) -> None:
        self.reasons.clear()
        self.refused_since = None

    def refused(self) -> bool:
        return self.refused_since is not None and time.monotonic() - self.refused_since > REFUSED_SECONDS

    def latest(self) -> tuple[str, ...]:
        return tuple(self.reasons)[-4:]


class AdminConnection:
    """An AdminClient that waits with a bound and says why nothing came. For one thread at a time."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.speaker = speaker_of(cluster, principal)
        self._cluster, self._principal = cluster, principal
        self._written = cluster.client_for(principal)
        settings = client_settings(cluster, principal)
        self.heard = ThrottleEvents(secrets_in(self._written, settings))
        self._looked = 0.0
        self._admin: AdminClient | None = None
        if reason := not_by_librdkafka(settings):
            raise bad_settings(self.speaker, reason)
        try:
            callbacks = {"error_cb": self.heard, "throttle_cb": self.heard.throttled}
            self._admin = AdminClient({**librdkafka_settings(settings), **callbacks}, logger=DebugLog())
        except (KafkaException, TypeError, ValueError) as error:
            unreadable = unreadable_file(settings, self._written)
            said = error.args[0] if error.args else None
            words = str(said.str()) if isinstance(said, KafkaError) else str(error)
            raise bad_settings(self.speaker, self.clean(words), unreadable) from None

    @property
    def admin(self) -> AdminClient:
        """Callers keep no reference to it."""
        if self._admin is None:
            raise unreachable(self.speaker, self.heard.latest())
        return self._admin

    @property
    def closed(self) -> bool:
        return self._admin is None

    def close(self) -> None:
        """Destroys the client here and now, if no caller keeps it.

        librdkafka aborts the process when a client is destroyed on its own background thread. That could happen if a
        client with an open request were left to the garbage collector, so callers that give up waiting close it.
        """
        self._admin = None

    def clean(self, text: str) -> str:
        return self.heard.clean(text)

    def wait_out_throttle(self) -> None:
        """A broker that enforces a quota answers at once, then does not read for its throttle time (KIP-219)."""
        self.admin.poll(0)
        wait_s = self.heard.throttled_until - time.monotonic()
        if wait_s > 0:
            _log.info("cluster %s throttles this client: waiting %.0f s for its quota", self.speaker.cluster, wait_s)
            time.sleep(wait_s)

    def first(self, future: Future[Any], asked: Asked, within: float = CONNECT_SECONDS) -> Any:
        """The answer to the first request of a connection, or the reason why no broker can be spoken to.

        Takes ``within`` seconds, which is also the request's own time-out, and hardly more; less when authentication
        fails or every address refuses.
        """
        # The client's own time-out is to come first: a client is not to be destroyed while its request is open.
        until = self._begin() + within + GRACE_SECONDS
        while not future.done() and time.monotonic() < until:
            wait((future,), timeout=0.05)
            if self.heard.refused_since is None:
                self._listen(future)
            else:  # no broker is connected that could name others
                self.admin.poll(0)
            if self.heard.authentication is not None:
                self.close()
                # The client has one error for every fault of a certificate, so the cluster is asked once more.
                servers = self.speaker.bootstrap_servers if self.heard.tls else ()
                settings = client_settings(self._cluster, self._principal)
                refusal = self.clean(tls_refusal(servers, settings, self._written))
                raise authentication(self.speaker, refusal or self.heard.authentication)
            if self.heard.refused():
                break
        error = kafka_error_of(future) if future.done() else None
        if future.done() and error is None:
            self.heard.forget()
            return future.result()
        self.close()
        if error is None or error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            reasons = self.heard.latest() or ((error.str(),) if error else ())
            # Only where every address closed the connection: after silence the question would cost more time.
            if self.heard.refused_since:
                settings = client_settings(self._cluster, self._principal)
                reasons = (*reasons, unexpected_tls(self.speaker.bootstrap_servers, settings))
            raise unreachable(self.speaker, reasons)
        raise self.error(error, asked)

    def cluster(self, within: float = CONNECT_SECONDS) -> Any:
        """What ``describe_cluster`` returns, with which a connection begins. As ``first``."""
        return self.first(self.admin.describe_cluster(request_timeout=within), DESCRIBE_CLUSTER, within)

    def topic(self, name: str) -> Any:
        """Its TopicDescription; None when the topic does not exist. Raises ClusterError."""
        asked = self.admin.describe_topics(TopicCollection([name]), request_timeout=CONNECT_SECONDS)
        self.settle(asked.values())
        failed = self.failure(asked[name], describe_topic(name))
        if failed is not None and failed.kind != "missing":
            raise failed
        return asked[name].result() if failed is None else None

    def settle(self, futures: Iterable[Future[Any]], seconds: float = REQUEST_SECONDS + 5) -> None:
        """Waits until all futures are done. Raises ClusterError when the client itself does not keep its bound."""
        pending: Sequence[Future[Any]] = tuple(futures)
        until = self._begin() + seconds
        while pending:
            pending = tuple(wait(pending, timeout=0.2).not_done)
            self._listen(*pending)
            if pending and time.monotonic() > until:
                self.close()
                raise unreachable(self.speaker, (*self.heard.latest(), f"no answer within {seconds:.0f} s"))

    def _begin(self) -> float:
        self._looked = time.monotonic()
        return self._looked

    def _listen(self, *pending: Future[Any]) -> None:
        """Hears errors. The client sends admin requests to one broker until it learns of another: make it ask."""
        self.admin.poll(0)
        silent = not all(future.done() for future in pending)
        if silent and time.monotonic() - self._looked > LOOK_AROUND_SECONDS:
            with contextlib.suppress(KafkaException):
                self.admin.list_topics(timeout=LOOK_AROUND_SECONDS)
            self._looked = time.monotonic()

    def error(self, error: KafkaError, asked: Asked) -> ClusterError:
        return translate(self.speaker, error, asked, self.clean(error.str()))

    def failure(self, future: Future[Any], asked: Asked) -> ClusterError | None:
        """As ``kafka_error_of``, in our words."""
        error = kafka_error_of(future)
        return None if error is None else self.error(error, asked)


def kafka_error_of(future: Future[Any]) -> KafkaError | None:
    """Of a settled future: None when it holds a result."""
    raised = future.exception()
    if raised is None:
        return None
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return KafkaError(KafkaError._FAIL, f"{type(raised).__name__}: {raised}")

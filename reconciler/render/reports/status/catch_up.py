"""How long a flow needs until it has caught up, from how its lag changed while it was watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.replication.status import FlowStatus
from reconciler.text import time_words

WINDOW_SECONDS = 30.0
"""The rate is that of the last half minute."""
_AT_REST_SECONDS = 2.0
"""Of lag: a flow that is not further behind is not catching up, it is there."""
_UNKNOWN = "unknown"


@dataclass(slots=True)
class LagTrend:
    """Looked at again and again. ``samples``: of each flow, times in seconds and lags in records."""

    samples: dict[tuple[str, str], list[tuple[float, int]]] = field(default_factory=dict)

    def look(self, now: float, live: LiveState) -> Mapping[tuple[str, str], str]:
        """Words by mirror and flow. A lag that is not known, or not current, begins anew: unknown stays unknown."""
        return {
            (name, flow.name): self._words((name, flow.name), now, flow, mirror)
            for name, mirror in live.mirrors.items()
            if isinstance(mirror, LiveMirror)
            for flow in mirror.flows.values()
        }

    def _words(self, key: tuple[str, str], now: float, flow: FlowStatus, mirror: LiveMirror) -> str:
        lag = flow.records_lag
        if mirror.state is not JobState.RUNNING or not mirror.lag_is_current or lag is None:
            self.samples.pop(key, None)
            return _UNKNOWN
        kept = [sample for sample in self.samples.get(key, []) if now - sample[0] <= WINDOW_SECONDS] + [(now, lag)]
        self.samples[key] = kept
        if lag == 0 or (flow.seconds_lag is not None and flow.seconds_lag <= _AT_REST_SECONDS):
            return "-"
        (began, first), (last, _) = kept[0], kept[-1]
        if last <= began:
            return _UNKNOWN
        fall = (first - lag) / (last - began)
        return time_words(lag / fall) if fall > 0 else "not falling"

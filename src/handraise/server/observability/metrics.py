"""What an operator can count. Every number is kept once, for Prometheus and, where wanted, for OpenTelemetry.

Numbers only: no label has the name of a workspace, a person, an agent or a question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import prometheus_client as prometheus
from opentelemetry.metrics import Meter, NoOpMeter
from prometheus_client.metrics_core import Metric

from handraise import __version__
from handraise.model.deliveries import DeliveryStatus, Try
from handraise.model.outcomes import Answered, Status
from handraise.model.questions import Question
from handraise.ports import QueueStats

_Send: TypeAlias = Callable[..., None]
"""Records the same number in OpenTelemetry, with its labels; nothing where that is not wanted."""

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0

_ANSWERING = (1, 5, 15, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR)
_ANSWERING_LONG = (_DAY, 3 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY)
_WAKING = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SERVING = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Description(NamedTuple):
    """A metric as its documentation has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class Metrics:
    """The numbers of one server, in a registry of its own."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.descriptions: list[Description] = []
        self._registry = prometheus.CollectorRegistry()
        self._meter = meter or NoOpMeter("handraise")
        self._counted_at = time.monotonic()
        self._streams = 0
        self._count_waits: Callable[[], int] = int

        self._info = self._level("info", "1, with the version that runs", ["version"])
        self._pending = self._level(
            "questions_pending",
            "Pending questions in the whole store that are at most so many seconds old, when they were last counted",
            ["at_most"],
        )
        self._deliveries = self._level(
            "deliveries", "Deliveries in the whole store by status, when they were last counted", ["status"]
        )
        self._tries = self._count(
            "delivery_tries",
            "Tries of this process to reach somebody, by what came of them",
            ["channel", "status"],
        )
        self._held_back = self._count(
            "messages_held_back",
            "Messages that waited for somebody's hours or because they were too many",
            ["channel"],
        )
        self._queue_stats_age = self._level(
            "queue_stats_age_seconds",
            "How long ago questions and deliveries were last counted, or the process began",
        )
        self._asked = self._count("questions_asked", "Questions that were left through this process")
        self._settled = self._count(
            "questions_settled", "Questions that this process settled, by their status", ["status"]
        )
        self._attempts = self._count("attempts", "Answers that did not fit, given through this process")
        self._answering = self._spread(
            "time_to_answer_seconds",
            "From asking to the answer of a person, by the clock of the store",
            (*_ANSWERING, *_ANSWERING_LONG),
        )
        self._waits = self._level("waits", "Waits for an outcome in this process, now")
        self._streaming = self._level("event_streams", "Event streams open at this process, now")
        self._waking = self._spread(
            "wake_up_lag_seconds",
            "Until the waits of this process knew an outcome: `here`, from when this process had recorded it; "
            "`elsewhere`, from when a hint of another process came in",
            _WAKING,
            ["settled"],
        )
        self._requests = self._count("http_requests", "HTTP requests by route", ["method", "route", "status"])
        self._serving = self._spread(
            "http_request_duration_seconds",
            "Until the whole response was given; event streams are left out",
            _SERVING,
            ["method", "route"],
        )
        self._replayed = self._count(
            "requests_replayed", "Requests answered again from their idempotency key, not done again"
        )
        self._limited = self._count("requests_limited", "Requests refused because a caller made too many")
        self._cut = self._count(
            "connections_cut",
            "Connections ended because no head of a request came (`slow`), or to make room for others: `address` if they "
            "were too many of one network address, `process` if they were too many at all",
            ["why"],
        )
        self._store_errors = self._count(
            "store_errors", "Calls that the store could not do, by call", ["call"]
        )

        self._audit_refused = self._level(
            "audit_refused",
            "Workspaces whose audit trail this process does not sign, because the store does not go on from what was signed",
        )

        self._info.set(1, version=__version__)
        self._queue_stats_age.live(self._age_of_queue_stats)
        self._streaming.live(lambda: self._streams)
        for status in Status:
            if status is not Status.PENDING:
                self._settled.add(0, status=status)
        prometheus.ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Everything in the text format of Prometheus."""
        return prometheus.generate_latest(_WithoutBirthdays(self._registry))

    def count_waits(self, count: Callable[[], int]) -> None:
        """Say how the waits of this process are counted."""
        self._count_waits = count
        self._waits.live(count)

    def beat(self, queue_stats: QueueStats) -> None:
        """Note what was just counted in the whole store."""
        self._counted_at = time.monotonic()
        for age, number in queue_stats.pending.items():
            self._pending.set(number, at_most="+Inf" if age == float("inf") else f"{age:g}")
        self._deliveries.clear()
        for status, number in queue_stats.deliveries.items():
            self._deliveries.set(number, status=status)
        self._waits.tell(self._count_waits())
        self._streaming.tell(self._streams)

    def delivery_tried(self, tried: Try) -> None:
        """A delivery was tried."""
        self._tries.add(1, channel=tried.delivery.channel, status=tried.status)
        if (
            tried.delivery.bundle is not None
            and tried.status is DeliveryStatus.SENT
            and tried.delivery.is_to_be_sent
        ):
            self._held_back.add(1, channel=tried.delivery.channel)

    def asked(self) -> None:
        """A question was left."""
        self._asked.add(1)

    def attempted(self) -> None:
        """An answer did not fit."""
        self._attempts.add(1)

    def settled(self, question: Question) -> None:
        """A question was settled here, by a person or by its asker."""
        self.settled_as(question.status)
        if isinstance(question.outcome, Answered) and question.outcome.source == "person":
            self._answering.observe((question.outcome.at - question.asked_at).total_seconds())

    def settled_as(self, status: Status, number: int = 1) -> None:
        """Questions were settled here, so many with this status."""
        self._settled.add(number, status=status)

    def woken_here(self, seconds: float) -> None:
        """Waits know what was recorded here so long ago."""
        self._waking.observe(seconds, settled="here")

    def woken_from_elsewhere(self, seconds: float) -> None:
        """Waits know what a hint was about that came in so long ago."""
        self._waking.observe(seconds, settled="elsewhere")

    def served(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request was answered; an event stream takes no time."""
        self._requests.add(1, method=method, route=route, status=str(status))
        if seconds is not None:
            self._serving.observe(seconds, method=method, route=route)
        if status == 429:  # noqa: PLR2004 -- too many requests
            self._limited.add(1)

    def replayed(self) -> None:
        """A request was answered from its idempotency key."""
        self._replayed.add(1)

    def connection_cut(self, why: str) -> None:
        """A connection was ended although nothing was wrong with what it said."""
        self._cut.add(1, why=why)

    def store_failed(self, call: str) -> None:
        """The store could not do a call."""
        self._store_errors.add(1, call=call)

    def audit_refused(self, workspaces: int) -> None:
        """So many workspaces are not signed now, because somebody changed the store."""
        self._audit_refused.set(workspaces)

    def stream_opened(self) -> None:
        """An event stream began."""
        self._streams += 1

    def stream_closed(self) -> None:
        """An event stream ended."""
        self._streams -= 1

    def _age_of_queue_stats(self) -> float:
        return time.monotonic() - self._counted_at

    def _describe(self, name: str, kind: str, labels: Sequence[str], text: str) -> None:
        self.descriptions.append(Description(f"handraise_{name}", kind, tuple(labels), text))

    def _count(self, name: str, text: str, labels: Sequence[str] = ()) -> _Count:
        self._describe(f"{name}_total", "counter", labels, text)
        return _Count(
            prometheus.Counter(f"handraise_{name}", text, labels, registry=self._registry),
            self._meter.create_counter(f"handraise.{name}", description=text).add,
        )

    def _level(self, name: str, text: str, labels: Sequence[str] = ()) -> _Level:
        self._describe(name, "gauge", labels, text)
        return _Level(
            prometheus.Gauge(f"handraise_{name}", text, labels, registry=self._registry),
            self._meter.create_gauge(f"handraise.{name}", description=text).set,
        )

    def _spread(self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> _Spread:
        self._describe(name, "histogram", labels, text)
        return _Spread(
            prometheus.Histogram(f"handraise_{name}", text, labels, buckets=buckets, registry=self._registry),
            self._meter.create_histogram(
                f"handraise.{name}", unit="s", description=text, explicit_bucket_boundaries_advisory=buckets
            ).record,
        )


class _Count:
    """A number that only grows."""

    def __init__(self, here: prometheus.Counter, send: _Send) -> None:
        self._here = here
        self._send = send

    def add(self, number: int, **labels: str) -> None:
        (self._here.labels(**labels) if labels else self._here).inc(number)
        self._send(number, labels)


class _Level:
    """A number that goes up and down."""

    def __init__(self, here: prometheus.Gauge, send: _Send) -> None:
        self._here = here
        self._send = send

    def set(self, number: float, **labels: str) -> None:
        (self._here.labels(**labels) if labels else self._here).set(number)
        self._send(number, labels)

    def tell(self, number: float) -> None:
        """Set it elsewhere only; here it is live."""
        self._send(number)

    def live(self, read: Callable[[], float]) -> None:
        """Read it whenever somebody asks."""
        self._here.set_function(read)

    def clear(self) -> None:
        """Forget every label: what is not set again has gone."""
        self._here.clear()


class _Spread:
    """How values are spread over buckets."""

    def __init__(self, here: prometheus.Histogram, send: _Send) -> None:
        self._here = here
        self._send = send

    def observe(self, value: float, **labels: str) -> None:
        (self._here.labels(**labels) if labels else self._here).observe(value)
        self._send(value, labels)


class _WithoutBirthdays:
    """A registry without the instants at which each series began, which are half of its lines."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family

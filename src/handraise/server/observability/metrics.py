"""Metrics for Prometheus and, if it is on, for OpenTelemetry.

No label has the name of a workspace, a person, an agent or a question.
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
from handraise.ports import PoolStats, QueueStats

_Send: TypeAlias = Callable[..., None]
"""Records the same number in OpenTelemetry, with its labels; does nothing if that is off."""

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0

_ANSWER_BUCKETS = (1, 5, 15, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR)
_LONG_ANSWER_BUCKETS = (_DAY, 3 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY)
_WAKE_UP_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_LOOP_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Description(NamedTuple):
    """A metric for its documentation."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


class Metrics:
    """The metrics of one server, in its own registry."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.descriptions: list[Description] = []
        self._registry = prometheus.CollectorRegistry()
        self._meter = meter or NoOpMeter("handraise")
        self._streams = 0
        self._task_runs: dict[str, float] = {}
        self._sealed_at = time.monotonic()
        self._gauges: list[_Gauge] = []

        self._info = self._gauge("info", "1, with the running version", ["version"])
        self._ready = self._gauge(
            "ready", "1 if this process takes requests and its store answered the last check, else 0"
        )
        self._store_up = self._gauge(
            "store_up", "1 if the store answered the last check of this process, every 5 seconds, else 0"
        )
        self._pool_size = self._gauge(
            "pool_size", "The most connections to PostgreSQL that the pool of this process opens"
        )
        self._pool_in_use = self._gauge("pool_in_use", "Connections of the pool that run a statement")
        self._pool_waiters = self._gauge("pool_waiters", "Statements that wait for a connection of the pool")
        self._loop_lag = self._histogram(
            "event_loop_lag_seconds",
            "How much later than it should the event loop of this process woke a timer, measured twice a second",
            _LOOP_BUCKETS,
        )
        self._task_age = self._gauge(
            "task_age_seconds",
            "Seconds since a background task of this process last succeeded, or since it was started",
            ["task"],
        )
        self._pending = self._gauge(
            "questions_pending",
            "Pending questions in the whole store, at most this many seconds old, at the last count",
            ["at_most"],
        )
        self._deliveries = self._gauge(
            "deliveries", "Deliveries in the whole store by status, at the last count", ["status"]
        )
        self._outbox_oldest_due = self._gauge(
            "outbox_oldest_due_seconds",
            "For how long the oldest delivery in the whole store has been due without an attempt, at the last count",
        )
        self._agents_at_quota = self._gauge(
            "agents_at_quota",
            "Agents in the whole store that may not ask because of `HANDRAISE_PENDING_QUOTA`, at the last count",
        )
        self._unanswerable = self._gauge(
            "questions_unanswerable",
            "Pending questions in the whole store that nobody can answer, because all they are for are disabled, removed, or "
            "groups without people, at the last count",
        )
        self._tries = self._counter(
            "delivery_tries",
            "Attempts of this process to deliver a message, by result",
            ["channel", "status"],
        )
        self._held_back = self._counter(
            "messages_held_back",
            "Messages that were delayed by quiet hours or by a limit",
            ["channel"],
        )
        self._asked = self._counter("questions_asked", "Questions asked through this process")
        self._settled = self._counter(
            "questions_settled", "Questions that this process settled, by their status", ["status"]
        )
        self._defaulted = self._counter(
            "answers_by_default",
            "Questions that got their default through this process because nobody answered in time; `answered` counts them too",
        )
        self._attempts = self._counter("attempts", "Answers through this process that did not fit the form")
        self._checks_denied = self._counter(
            "spot_checks_denied",
            "Spot checks of rules that were denied through this process; a denial suspends the rule",
        )
        self._policy_duration = self._histogram(
            "policy_duration_seconds",
            "Until the rules of a workspace had decided about a question",
            _LOOP_BUCKETS,
        )
        self._time_to_answer = self._histogram(
            "time_to_answer_seconds",
            "From the question to a person's answer, by the clock of the store",
            (*_ANSWER_BUCKETS, *_LONG_ANSWER_BUCKETS),
        )
        self._waits = self._gauge("waits", "Open waits for an outcome in this process")
        self._event_streams = self._gauge("event_streams", "Open event streams of this process")
        self._feed_lag = self._gauge(
            "feed_lag_seconds",
            "Seconds since this process last read the events that its streams wait for, of the workspace where that "
            "is longest; 0 without streams",
        )
        self._wake_up_lag = self._histogram(
            "wake_up_lag_seconds",
            "Until the waits of this process got an outcome: `here`, since this process recorded it; "
            "`elsewhere`, since a hint from another process came",
            _WAKE_UP_BUCKETS,
            ["settled"],
        )
        self._requests = self._counter(
            "http_requests", "HTTP requests by route", ["method", "route", "status"]
        )
        self._request_duration = self._histogram(
            "http_request_duration_seconds",
            "Until the whole response was sent, without event streams",
            _REQUEST_BUCKETS,
            ["method", "route"],
        )
        self._replayed = self._counter(
            "requests_replayed", "Requests answered from their idempotency key, not done again"
        )
        self._limited = self._counter("requests_limited", "Requests refused by a rate limit")
        self._credentials_refused = self._counter(
            "credentials_refused",
            "Keys, sessions, links, codes and signatures that were not valid, by what they were for",
            ["credential"],
        )
        self._cut_connections = self._counter(
            "connections_cut",
            "Connections closed because no request came in time (`slow`), or because of the limit of one network "
            "address (`address`) or of the process (`process`)",
            ["why"],
        )
        self._store_errors = self._counter("store_errors", "Failed calls to the store, by call", ["call"])

        self._audit_refused = self._gauge(
            "audit_refused",
            "Workspaces whose audit trail this process refuses to sign, because the store does not continue what was signed",
        )

        self._audit_failed = self._gauge(
            "audit_failed",
            "Workspaces whose events this process cannot seal, because of an error that is in its log",
        )
        self._sealed_age = self._gauge(
            "audit_sealed_age_seconds",
            "Seconds since this process last found every event of every workspace sealed, or since it started",
        )
        self._witness_tries = self._counter(
            "audit_witness_tries",
            "Attempts of this process to send heads of the audit trail to a witness, by result",
            ["witness", "status"],
        )
        self._witness_failing = self._gauge(
            "audit_witness_failing",
            "1 if a witness could not be sent heads of the audit trail at the last attempt, else 0",
            ["witness"],
        )

        self._show_what_is_known()

    def _show_what_is_known(self) -> None:
        """Set what has a value before anything happens, and what is read at every scrape."""
        self._info.set(1, version=__version__)
        self._event_streams.read_from(lambda: self._streams)
        self._sealed_age.read_from(lambda: time.monotonic() - self._sealed_at)
        for status in Status:
            if status is not Status.PENDING:
                self._settled.add(0, status=status)
        prometheus.ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Render everything in the text format of Prometheus."""
        return prometheus.generate_latest(_WithoutCreatedSamples(self._registry))

    def read_waits(self, count: Callable[[], int]) -> None:
        """Read the number of waits of this process from a function."""
        self._waits.read_from(count)

    def read_readiness(self, is_ready: Callable[[], bool]) -> None:
        """Read from a function whether this process takes requests."""
        self._ready.read_from(is_ready)

    def read_pool(self, stats: Callable[[], PoolStats]) -> None:
        """Read the state of the connection pool from a function."""
        self._pool_size.read_from(lambda: stats().size)
        self._pool_in_use.read_from(lambda: stats().in_use)
        self._pool_waiters.read_from(lambda: stats().waiters)

    def read_feed_lag(self, lag: Callable[[], float]) -> None:
        """Read from a function for how long followed events have not been read."""
        self._feed_lag.read_from(lag)

    def set_store_up(self, *, up: bool) -> None:
        """Set whether the store answered the last check."""
        self._store_up.set(int(up))

    def watch_task(self, task: str) -> Callable[[], None]:
        """Measure since when a background task has not succeeded; call the result whenever it has."""

        def succeeded() -> None:
            self._task_runs[task] = time.monotonic()

        succeeded()
        self._task_age.read_from(lambda: time.monotonic() - self._task_runs[task], task=task)
        return succeeded

    def observe_loop_lag(self, seconds: float) -> None:
        """Observe how late the event loop woke a timer."""
        self._loop_lag.observe(seconds)

    def update_queue_stats(self, queue_stats: QueueStats) -> None:
        """Set what was just counted in the whole store, and export what Prometheus reads by itself."""
        for age, number in queue_stats.pending.items():
            self._pending.set(number, at_most="+Inf" if age == float("inf") else f"{age:g}")
        self._deliveries.clear()
        for status, number in queue_stats.deliveries.items():
            self._deliveries.set(number, status=status)
        self._outbox_oldest_due.set(queue_stats.oldest_due)
        self._agents_at_quota.set(queue_stats.askers_at_quota)
        self._unanswerable.set(queue_stats.unanswerable)
        for gauge in self._gauges:
            gauge.export()

    def count_delivery_try(self, tried: Try) -> None:
        """Count a delivery attempt."""
        self._tries.add(1, channel=tried.delivery.channel, status=tried.status)
        if (
            tried.delivery.bundle is not None
            and tried.status is DeliveryStatus.SENT
            and tried.delivery.is_to_be_sent
        ):
            self._held_back.add(1, channel=tried.delivery.channel)

    def count_asked(self) -> None:
        """Count a question."""
        self._asked.add(1)

    def count_attempt(self) -> None:
        """Count an answer that did not fit."""
        self._attempts.add(1)

    def count_check_denied(self) -> None:
        """Count a denial that suspends a rule."""
        self._checks_denied.add(1)

    def observe_policy(self, seconds: float) -> None:
        """Observe how long the rules of a workspace took to decide about a question."""
        self._policy_duration.observe(seconds)

    def count_settled(self, question: Question) -> None:
        """Count a question that a person or its asker settled here."""
        self.count_settled_as(question.status)
        if isinstance(question.outcome, Answered) and question.outcome.source == "person":
            self._time_to_answer.observe((question.outcome.at - question.asked_at).total_seconds())

    def count_settled_as(self, status: Status, number: int = 1) -> None:
        """Count questions that were settled here with this status."""
        self._settled.add(number, status=status)

    def count_defaults(self, number: int) -> None:
        """Count questions that were answered with their default."""
        self._defaulted.add(number)

    def observe_local_wake_up(self, seconds: float) -> None:
        """Observe how long waits took to get an outcome that was recorded here."""
        self._wake_up_lag.observe(seconds, settled="here")

    def observe_remote_wake_up(self, seconds: float) -> None:
        """Observe how long waits took to get an outcome after a hint came."""
        self._wake_up_lag.observe(seconds, settled="elsewhere")

    def observe_request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a request, and observe its duration; an event stream has none."""
        self._requests.add(1, method=method, route=route, status=str(status))
        if seconds is not None:
            self._request_duration.observe(seconds, method=method, route=route)
        if status == 429:  # noqa: PLR2004 -- too many requests
            self._limited.add(1)

    def count_replayed(self) -> None:
        """Count a request that was answered from its idempotency key."""
        self._replayed.add(1)

    def count_refused_credential(self, credential: str) -> None:
        """Count a credential that was not valid."""
        self._credentials_refused.add(1, credential=credential)

    def count_cut_connection(self, why: str) -> None:
        """Count a connection that was closed because of a limit."""
        self._cut_connections.add(1, why=why)

    def count_store_error(self, call: str) -> None:
        """Count a failed call to the store."""
        self._store_errors.add(1, call=call)

    def set_audit_refused(self, workspaces: int) -> None:
        """Set the number of workspaces that are not signed, because somebody changed the store."""
        self._audit_refused.set(workspaces)

    def set_audit_failed(self, workspaces: int) -> None:
        """Set the number of workspaces whose events cannot be sealed."""
        self._audit_failed.set(workspaces)

    def note_sealed(self) -> None:
        """Note that every event of every workspace is sealed."""
        self._sealed_at = time.monotonic()

    def count_witness_try(self, witness: str, *, sent: bool) -> None:
        """Count an attempt to send heads to a witness."""
        self._witness_tries.add(1, witness=witness, status="sent" if sent else "failed")

    def set_witness_failing(self, witness: str, *, failing: bool) -> None:
        """Set whether the last attempt to send heads to a witness failed."""
        self._witness_failing.set(int(failing), witness=witness)

    def stream_opened(self) -> None:
        """Count an event stream that started."""
        self._streams += 1

    def stream_closed(self) -> None:
        """Count an event stream that ended."""
        self._streams -= 1

    def _describe(self, name: str, kind: str, labels: Sequence[str], text: str) -> None:
        self.descriptions.append(Description(f"handraise_{name}", kind, tuple(labels), text))

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> _Counter:
        self._describe(f"{name}_total", "counter", labels, text)
        return _Counter(
            prometheus.Counter(f"handraise_{name}", text, labels, registry=self._registry),
            self._meter.create_counter(f"handraise.{name}", description=text).add,
        )

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> _Gauge:
        self._describe(name, "gauge", labels, text)
        gauge = _Gauge(
            prometheus.Gauge(f"handraise_{name}", text, labels, registry=self._registry),
            self._meter.create_gauge(f"handraise.{name}", description=text).set,
        )
        self._gauges.append(gauge)
        return gauge

    def _histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> _Histogram:
        self._describe(name, "histogram", labels, text)
        return _Histogram(
            prometheus.Histogram(f"handraise_{name}", text, labels, buckets=buckets, registry=self._registry),
            self._meter.create_histogram(
                f"handraise.{name}", unit="s", description=text, explicit_bucket_boundaries_advisory=buckets
            ).record,
        )


class _Counter:
    """A number that only grows."""

    def __init__(self, here: prometheus.Counter, send: _Send) -> None:
        self._here = here
        self._send = send
        self._children: dict[tuple[str, ...], prometheus.Counter] = {}

    def add(self, number: int, **labels: str) -> None:
        key = (*labels.values(),)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._here.labels(**labels) if labels else self._here
        child.inc(number)
        self._send(number, labels)


class _Gauge:
    """A number that goes up and down."""

    def __init__(self, here: prometheus.Gauge, send: _Send) -> None:
        self._here = here
        self._send = send
        self._readers: dict[tuple[str, ...], Callable[[], None]] = {}

    def set(self, number: float, **labels: str) -> None:
        (self._here.labels(**labels) if labels else self._here).set(number)
        self._send(number, labels)

    def read_from(self, read: Callable[[], float], **labels: str) -> None:
        """Read it from a function at every scrape; OpenTelemetry gets it from `export`."""
        (self._here.labels(**labels) if labels else self._here).set_function(read)
        self._readers[(*labels.values(),)] = lambda: self._send(read(), labels)

    def export(self) -> None:
        """Send what the function says to OpenTelemetry."""
        for send in self._readers.values():
            send()

    def clear(self) -> None:
        """Remove all labels."""
        self._here.clear()


class _Histogram:
    """A distribution over buckets."""

    def __init__(self, here: prometheus.Histogram, send: _Send) -> None:
        self._here = here
        self._send = send
        self._children: dict[tuple[str, ...], prometheus.Histogram] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = (*labels.values(),)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._here.labels(**labels) if labels else self._here
        child.observe(value)
        self._send(value, labels)


class _WithoutCreatedSamples:
    """A registry without the `_created` samples, which are half of its lines."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family

"""Spans of requests, deliveries and statements.

The span of an answer links to the asker's: one span for both would last for days.
Not FastAPI's own spans: they have query strings, and a sign-in link has its token there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from handraise import __version__
from handraise.desk.dispatcher import EndDelivery
from handraise.model.deliveries import Delivery, DeliveryStatus, Try
from handraise.model.questions import Question
from handraise.model.stops import tool_of
from handraise.model.traceparent import traceparent_of

_NOT_ARRIVED = (DeliveryStatus.FAILED, DeliveryStatus.UNKNOWN)
_PROPAGATOR = TraceContextTextMapPropagator()


class Traces:
    """The spans of one server. Without a provider they cost nothing."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self.is_on = provider is not None
        self._tracer = (provider or trace.NoOpTracerProvider()).get_tracer("handraise", __version__)

    def start_span(self, method: str, headers: Mapping[str, str]) -> Span:
        """Start the span of a request, as a child of the caller's if its headers name one."""
        is_child = "traceparent" in headers
        if not (self.is_on or is_child):
            return trace.INVALID_SPAN
        context = _PROPAGATOR.extract(headers) if is_child else None
        return self._tracer.start_span(method, context=context, kind=SpanKind.SERVER)

    def statement_span(self, name: str) -> AbstractContextManager[object]:
        """A span of a statement, below the one of its request or delivery. It has no values: those are answers too."""
        if not (self.is_on and trace.get_current_span().is_recording()):
            return nullcontext()
        attributes = {"db.system.name": "postgresql", "db.query.summary": name}
        return self._span_here(f"postgresql {name}", attributes)

    @contextmanager
    def delivery_span(self, deliveries: Sequence[Delivery]) -> Iterator[EndDelivery]:
        """A span of an attempt to send a message. It says neither to whom nor what."""
        first = deliveries[0]
        attributes: dict[str, str | int] = {
            "handraise.workspace": first.workspace,
            "handraise.channel": first.channel,
            "handraise.delivery.id": first.id,
            "handraise.delivery.reason": first.reason,
            "handraise.delivery.questions": len(deliveries),
        }
        with self._span_here(f"deliver {first.channel}", attributes) as span:

            def end(questions: Sequence[Question], tries: Sequence[Try]) -> None:
                if len(questions) == 1:
                    set_question_attributes(span, questions[0])
                for question in questions:
                    self.link_to_asker(question, span)
                status = tries[0].status
                span.set_attribute("handraise.delivery.status", status)
                if tries[0].again_after is not None or status in _NOT_ARRIVED:
                    span.set_attribute("error.type", status)
                    span.set_status(StatusCode.ERROR)

            yield end

    @contextmanager
    def _span_here(self, name: str, attributes: Mapping[str, str | int]) -> Iterator[Span]:
        """A span below the current one. Of an error it has the type only: the text may have an address or a value."""
        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise

    def link_to_asker(self, question: Question, span: Span) -> None:
        """Link a request's span to the span in which its question was asked, if that is known."""
        asker = None if question.trace is None else _parse_traceparent(question.trace)
        if asker is not None and asker != span.get_span_context():
            span.add_link(asker, {"handraise.link": "asker"})


def asker_traceparent(headers: Mapping[str, str]) -> str | None:
    """The `traceparent` in which a question is asked: the caller's, else that of the request."""
    given = headers.get("traceparent")
    context = (given and _parse_traceparent(given)) or trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return traceparent_of(context.trace_id, context.span_id, context.trace_flags)


def set_question_attributes(span: Span, question: Question) -> None:
    """Set the attributes of a question on a span, by OpenTelemetry's conventions for generative AI."""
    span.set_attribute("handraise.question.id", question.id)
    span.set_attribute("gen_ai.agent.name", question.asker)
    if question.conversation is not None:
        span.set_attribute("gen_ai.conversation.id", question.conversation)
    if question.tool_call is not None:
        span.set_attribute("gen_ai.tool.call.id", question.tool_call)
    if (tool := tool_of(question)) is not None:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", tool)


def end_span(span: Span, *, method: str, route: str | None, status: int, workspace: str | None) -> None:
    """End a request's span with its result."""
    if span.is_recording():
        span.update_name(f"{method} {route}" if route else method)
        span.set_attribute("http.request.method", method)
        span.set_attribute("http.response.status_code", status)
        if route:
            span.set_attribute("http.route", route)
        if workspace:
            span.set_attribute("handraise.workspace", workspace)
        if status >= 500:  # noqa: PLR2004 -- a server error
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)
    span.end()


def trace_id(span: Span) -> str | None:
    """The id of a span's trace; None if tracing is off."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def _parse_traceparent(traceparent: str) -> SpanContext | None:
    """Parse a `traceparent` into a span context."""
    context = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
    return context if context.is_valid else None

"""Spans of requests. The span of an answer has a link to the asker's: one span for both would last for days.

Our own rather than FastAPI's, which would put query strings into them, and a sign-in link's token is in one.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from handraise import __version__
from handraise.model.questions import Question

_PROPAGATOR = TraceContextTextMapPropagator()


class Traces:
    """The spans of one server. Without a provider they are nothing and cost nothing."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = (provider or trace.NoOpTracerProvider()).get_tracer("handraise", __version__)

    def begin(self, method: str, headers: Mapping[str, str]) -> Span:
        """The span of a request, below the caller's where its headers name one."""
        context = _PROPAGATOR.extract(headers) if "traceparent" in headers else None
        return self._tracer.start_span(method, context=context, kind=SpanKind.SERVER)

    def link(self, question: Question, span: Span) -> None:
        """Link a request's span to the one that its question was asked in, where that is known."""
        asker = None if question.trace is None else _named_by(question.trace)
        if asker is not None and asker != span.get_span_context():
            span.add_link(asker, {"handraise.link": "asker"})


def asked_in(headers: Mapping[str, str]) -> str | None:
    """The span that a question is asked in, as a `traceparent`: the caller's, else that of the request."""
    context = _named_by(headers.get("traceparent", "")) or trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def describe(span: Span, question: Question) -> None:
    """Say in a span which question it is about."""
    span.set_attribute("handraise.question.id", question.id)
    span.set_attribute("gen_ai.agent.name", question.asker)
    if question.conversation is not None:
        span.set_attribute("gen_ai.conversation.id", question.conversation)
    if question.tool_call is not None:
        span.set_attribute("gen_ai.tool.call.id", question.tool_call)


def end(span: Span, *, method: str, route: str | None, status: int, workspace: str | None) -> None:
    """End a request's span with what came of it."""
    if span.is_recording():
        span.update_name(f"{method} {route}" if route else method)
        span.set_attribute("http.request.method", method)
        span.set_attribute("http.response.status_code", status)
        if route:
            span.set_attribute("http.route", route)
        if workspace:
            span.set_attribute("handraise.workspace", workspace)
        if status >= 500:  # noqa: PLR2004 -- the first status that is our own fault
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)
    span.end()


def trace_id(span: Span) -> str | None:
    """The name of the trace that a span belongs to, or None where nobody traces."""
    context = span.get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def _named_by(traceparent: str) -> SpanContext | None:
    """The span that a `traceparent` names."""
    context = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
    return context if context.is_valid else None

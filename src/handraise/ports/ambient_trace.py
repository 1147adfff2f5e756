"""The span in which a program asks, if it traces itself with OpenTelemetry."""

from __future__ import annotations

import sys

from handraise.model.traceparent import traceparent_of


def current_traceparent() -> str | None:
    """The `traceparent` of the current span, or None. A program that has not imported OpenTelemetry has no span."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    return (
        traceparent_of(context.trace_id, context.span_id, context.trace_flags) if context.is_valid else None
    )

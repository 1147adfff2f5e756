"""AG-UI 1.0, both ways: a front end answers a desk's questions, and people at a desk answer an agent's interrupts."""

from handraise.errors import MissingExtra

try:
    import ag_ui as _ag_ui  # noqa: F401 -- an extra: say which, once, here
    import httpx2 as _httpx2  # noqa: F401 -- same
    import starlette as _starlette  # noqa: F401 -- same
except ImportError as error:
    raise MissingExtra(error.name or "ag-ui-protocol", "agui") from error

from handraise.integrations.agui.client import AguiAgent, RunEnd, RunFailed
from handraise.integrations.agui.frontend import agui_route, interrupt_of, open_interrupts, take_resume

__all__ = [
    "AguiAgent",
    "RunEnd",
    "RunFailed",
    "agui_route",
    "interrupt_of",
    "open_interrupts",
    "take_resume",
]

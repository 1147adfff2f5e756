"""Functions that run only after a person has approved exactly this call.

The call that runs comes from the record, not from the caller: it is frozen and hashed when approval is
requested, and executed from the record at most once for each approval.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import uuid
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, get_type_hints, overload

import pydantic
from pydantic_core import PydanticSerializationError

from handraise import Approval, Desk, Field, InvalidQuestion, Problem
from handraise.blocking import BlockingDesk
from handraise.errors import AnswerTypeMismatch
from handraise.forms import Brief, Risk, Scope
from handraise.model.answer_types import typed
from handraise.model.thread_messages import ThreadMessage
from handraise.model.type_problems import problems_of
from handraise.ports.desk import ReplyWith
from handraise.questions import QuestionOptions
from handraise.tools.automatic_reports import (
    error_report,
    result_report,
    send_report_by_key,
    send_report_by_key_blocking,
)

P = ParamSpec("P")
R = TypeVar("R")

Arguments = Mapping[str, Any]

BlockingReply = Callable[[ThreadMessage], str | None]
"""Gives the reply to what a person asked back, on a blocking desk; None replies nothing."""


class ApprovalOptions(QuestionOptions, total=False):
    """Options of a function's approvals: who decides, what they may change, and how far an approval reaches.

    `prompt` is what a person reads above the action. `call_key` gets the arguments as one dict, and its text identifies
    the call permanently: `lambda arguments: f"pay-{arguments['invoice']}"`. If the call runs again after a crash, it finds
    the approval that was given meanwhile. `brief` may be a function of the same dict. The rest is as in `Approval.of` and
    `post`.
    """

    prompt: str
    call_key: Callable[[Arguments], str]
    editable: Sequence[str]
    scopes: Sequence[Scope]
    remember_by: Sequence[str]
    remember_for: timedelta
    valid_for: timedelta
    risk: Risk
    brief: Brief | Callable[[Arguments], Brief | None]


class AsyncDecorator(Protocol):
    """Decorates a function, sync or async, so that it is awaited."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


class BlockingDecorator(Protocol):
    """Decorates a function so that it blocks."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """The function that needs approval."""
        ...


@overload
def requires_approval(
    desk: Desk, *, reply_with: ReplyWith | None = None, **options: Unpack[ApprovalOptions]
) -> AsyncDecorator: ...


@overload
def requires_approval(
    desk: BlockingDesk, *, reply_with: BlockingReply | None = None, **options: Unpack[ApprovalOptions]
) -> BlockingDecorator: ...


def requires_approval(
    desk: Desk | BlockingDesk, *, reply_with: Any = None, **options: Unpack[ApprovalOptions]
) -> Any:
    """Let a function run only after a person has approved the call; anything else raises `NotApproved`.

    On a desk the decorated function is awaited, whether it was written with `async` or not; on a blocking
    desk it blocks. Its arguments are stored as JSON and converted back with the function's annotations. What it
    returns or raises is reported, shortened, to the people who see the question. `reply_with` lets people ask back, as
    in `Desk.wait`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        call = FrozenCall(function, options)

        if isinstance(desk, BlockingDesk):
            if inspect.iscoroutinefunction(function):
                raise TypeError(
                    f"{call.tool}() is async: give it a desk that is too, from handraise.open_desk"
                )

            @functools.wraps(function)
            def blocking(*args: Any, **kwargs: Any) -> Any:
                arguments = call.bind(*args, **kwargs)
                about = _with_key(call.about(arguments))
                action = desk.request_approval(
                    call.freeze(arguments), prompt=call.prompt, reply_with=reply_with, **about
                )
                try:
                    output = call.run(action.arguments)
                except Exception as error:
                    send_report_by_key_blocking(desk, about["key"], error_report(error))
                    raise
                send_report_by_key_blocking(desk, about["key"], result_report(output))
                return output

            return blocking

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            arguments = call.bind(*args, **kwargs)
            about = _with_key(call.about(arguments))
            action = await desk.request_approval(
                call.freeze(arguments), prompt=call.prompt, reply_with=reply_with, **about
            )
            try:
                output = await call.run_async(action.arguments)
            except Exception as error:
                await send_report_by_key(desk, about["key"], error_report(error))
                raise
            await send_report_by_key(desk, about["key"], result_report(output))
            return output

        return awaited

    return decorate


def _with_key(about: QuestionOptions) -> QuestionOptions:
    """The same with a key, so that the question is found when its call has run."""
    about.setdefault("key", f"call:{uuid.uuid4().hex}")
    return about


class FrozenCall:
    """Turns calls of one function into actions, and approved actions into calls.

    Arguments are validated with the function's annotations, stored as JSON, and validated again before the
    call, including those that a person has edited.
    """

    def __init__(self, function: Callable[..., Any], options: ApprovalOptions) -> None:
        self.tool: str = function.__name__
        if not self.tool.isidentifier():
            raise TypeError(f"{self.tool} has no name that a person could approve: write it with def")
        self.prompt = options.get("prompt")
        self._function = function
        self._options = options
        self._signature = _named_parameters(function)
        self._parameters = _parameters_of(function, self._signature)
        named = (*options.get("editable", ()), *(options.get("remember_by") or ()))
        unknown = [name for name in named if name not in self._signature.parameters]
        if unknown:
            raise TypeError(f"{self.tool}() has no parameter {', '.join(unknown)}")
        self._check_functions()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the function's parameters."""
        return self._parameters.model_json_schema()

    def bind(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a call by name, defaults included, as JSON."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self.read(bound.arguments)

    def read(self, arguments: Arguments) -> dict[str, Any]:
        """Arguments by name as JSON, or `InvalidQuestion` with every one that does not fit."""
        try:
            return self._parameters.model_validate(dict(arguments)).model_dump(mode="json")
        except pydantic.ValidationError as error:
            raise InvalidQuestion(problems_of(error, self._parameters)) from error
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidQuestion([Problem("arguments", f"cannot be kept as JSON: {error}")]) from error

    def freeze(self, arguments: Arguments) -> Approval:
        """The approval that must be given before a call with these arguments runs."""
        brief = self._options.get("brief")
        return Approval.of(
            self.tool,
            arguments,
            editable=[self._field(name, arguments) for name in self._options.get("editable", ())],
            scopes=self._options.get("scopes", ("once",)),
            remember_by=self._options.get("remember_by"),
            remember_for=self._options.get("remember_for", timedelta(days=30)),
            valid_for=self._options.get("valid_for"),
            risk=self._options.get("risk", "medium"),
            brief=brief(arguments) if callable(brief) else brief,
        )

    def about(self, arguments: Arguments) -> QuestionOptions:
        """The other options of the question."""
        options: Any = {
            name: value for name, value in self._options.items() if name in QuestionOptions.__annotations__
        }
        if "call_key" in self._options:
            options["key"] = self._options["call_key"](arguments)
        about: QuestionOptions = options
        return about

    def run(self, arguments: Arguments) -> Any:
        """Call the function with approved arguments."""
        try:
            read = self._parameters.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            raise AnswerTypeMismatch(problems_of(error, show_values=False)) from error
        bound = self._signature.bind_partial()
        bound.arguments.update({name: getattr(read, name) for name in self._signature.parameters})
        return self._function(*bound.args, **bound.kwargs)

    async def run_async(self, arguments: Arguments) -> Any:
        """The same without blocking the event loop."""
        if inspect.iscoroutinefunction(self._function):
            return await self.run(arguments)
        return await asyncio.to_thread(self.run, arguments)

    def _check_functions(self) -> None:
        """Refuse functions of the arguments that cannot be called with one dict, before anybody is asked."""
        name = next(iter(self._signature.parameters), None)
        if not _takes_arguments(self._options.get("call_key")):
            example = self.tool if name is None else f"{self.tool}-{{arguments[{name!r}]}}"
            raise TypeError(
                f"call_key is called with one dict, the arguments of the call by name. Write "
                f'call_key=lambda arguments: f"{example}"'
            )
        brief = self._options.get("brief")
        if callable(brief) and not _takes_arguments(brief):
            raise TypeError(
                "brief is called with one dict, the arguments of the call by name. Write "
                "brief=lambda arguments: Brief(why=…)"
            )

    def _field(self, name: str, arguments: Arguments) -> Field | str:
        """The form of an editable argument: from its annotation, else from its current value."""
        annotation: Any = self._parameters.model_fields[name].annotation
        try:
            form = None if annotation in (None, Any) else typed(annotation).form
        except InvalidQuestion:
            form = None
        if form is None or form.kind in ("form", "approval"):
            return name
        return Field(name=name, form=form, default=arguments[name])


def _takes_arguments(function: Callable[[Arguments], Any] | None) -> bool:
    """Whether a function can be called with the arguments as its only argument, as far as Python knows."""
    if function is None:
        return True
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C has no signature
        return True
    try:
        signature.bind({})
    except TypeError:
        return False
    return True


def _parameters_of(function: Callable[..., Any], signature: inspect.Signature) -> type[pydantic.BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (
            hints.get(name, Any),
            ... if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for name, parameter in signature.parameters.items()
    }
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    with warnings.catch_warnings():  # a parameter may be called `json` or `copy`, as a model's methods are
        warnings.simplefilter("ignore", UserWarning)
        return pydantic.create_model(function.__name__, __config__=config, **fields)


def _named_parameters(function: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in open_ended for parameter in signature.parameters.values()):
        raise TypeError(
            f"{function.__name__}() takes *args or **kwargs: name its parameters, so that a person can see them"
        )
    return signature

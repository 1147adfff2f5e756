"""Check an approval at the place where its action is executed: a service, a job, an admission webhook.

    gate = Gate(key="receipts.pub", workspace="acme", uses=ServerUses("https://handraise.example"))
    approved = await gate.check(token, tool="refund", arguments={"amount": 40})

The agent brings the token (`desk.receipt`), and the arguments are those that are about to be executed, never those of
the agent. What is not proven is refused: `ReceiptRefused` says why.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pydantic

from handraise.model.errors import MissingExtra, ReceiptRefused, WrongLoop
from handraise.model.json_values import json_problems
from handraise.model.receipts import Approver, Receipt
from handraise.signing.receipt_tokens import load_verifier
from handraise.wire.problem_documents import MEDIA_TYPE, ProblemDocument
from handraise.wire.receipt_records import UsedReceipt, UseReceipt

try:
    import httpx2
except ModuleNotFoundError as error:
    raise MissingExtra("httpx2", "gate") from error

__all__ = ["Approver", "FileUses", "Gate", "Receipt", "ReceiptRefused", "ServerUses", "Uses"]

_DEEPEST = 64
_PAUSES = (0.2, 0.5, 1.0)
"""Seconds between tries to reach the server. The same use is reported each time, so it counts once."""
_ERRORS_OF_SERVER = 500
_TOO_MANY = 429
_REQUEST_TIMEOUT = 10.0
_BUSY_SECONDS = 10.0
_TABLE = """
create table if not exists uses (
    receipt text primary key, use_id text not null, question text not null, at text not null
) strict
"""


class Uses(Protocol):
    """Makes sure that an approval is used once."""

    async def use(self, token: str, receipt: Receipt, *, use_id: str) -> None:
        """Use an approval up, or raise `ReceiptRefused`. The same `use_id` gets the same answer again."""
        ...


class Gate:
    """Lets an action through if a receipt says that exactly this was approved, once.

    `key` is the file with the public key, or with the key set of a server (`GET /v1/receipt-keys`); several while a
    key is replaced. Receipts of other workspaces are refused.
    """

    def __init__(
        self,
        *,
        key: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        workspace: str,
        uses: Uses,
    ) -> None:
        self._verifier = load_verifier([key] if isinstance(key, str | os.PathLike) else key)
        self._workspace = workspace
        self._uses = uses

    async def check(
        self, token: str, *, tool: str, arguments: Mapping[str, object], use_id: str | None = None
    ) -> Receipt:
        """Use the approval of a receipt up, for this tool with exactly these arguments, and return the receipt.

        Execute the action only if this returns. It raises `ReceiptRefused` for everything else, also if the server
        cannot be reached. `use_id` is an id of your own for this one execution: if your caller repeats a request,
        such as an admission webhook's, pass the id of the request, and the repetition gets the same answer.
        """
        receipt = self.verify(token, tool=tool, arguments=arguments)
        await self._uses.use(token, receipt, use_id=uuid.uuid4().hex if use_id is None else use_id)
        return receipt

    def check_blocking(
        self, token: str, *, tool: str, arguments: Mapping[str, object], use_id: str | None = None
    ) -> Receipt:
        """Do the same as `check`, in a program without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.check(token, tool=tool, arguments=arguments, use_id=use_id))
        raise WrongLoop("check_blocking would block the event loop: write `await gate.check(…)`.")

    def verify(self, token: str, *, tool: str, arguments: Mapping[str, object]) -> Receipt:
        """Check a receipt without using it up: it does not show whether the approval was used or taken back."""
        receipt = self._verifier.verify(token, now=datetime.now(UTC))
        if receipt.workspace != self._workspace:
            raise ReceiptRefused("it is for another workspace")
        return check_action(receipt, tool=tool, arguments=arguments)


def check_action(receipt: Receipt, *, tool: str | None, arguments: Mapping[str, object] | None) -> Receipt:
    """The receipt, if it is for this tool and these arguments; raises `ReceiptRefused` if not. None is not checked."""
    if tool is not None and receipt.tool != tool:
        raise ReceiptRefused(f"it is for the tool {receipt.tool!r}, not for {tool!r}")
    if arguments is not None:
        given = dict(arguments)
        if problems := list(json_problems(given, "arguments", depth=_DEEPEST)):
            raise ReceiptRefused(f"{problems[0].path} {problems[0].message}")
        if not receipt.covers(receipt.tool, given):
            raise ReceiptRefused("other arguments were approved")
    return receipt


class ServerUses:
    """Reports each use to the server, which decides: once, not after a take-back, not while it is stopped.

    The receipt is the credential, so no key is needed. If the server cannot be reached, the receipt is refused.
    """

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/v1/receipts/use"

    async def use(self, token: str, receipt: Receipt, *, use_id: str) -> None:
        """See `Uses.use`."""
        try:
            body = UseReceipt(receipt=token, use_id=use_id).model_dump_json().encode()
        except (pydantic.ValidationError, UnicodeEncodeError) as error:
            raise ReceiptRefused("the use_id must have from 1 to 200 characters") from error
        why = ""
        async with httpx2.AsyncClient(timeout=_REQUEST_TIMEOUT, follow_redirects=False) as client:
            for pause in (*_PAUSES, None):
                try:
                    response = await client.post(
                        self._url, content=body, headers={"content-type": "application/json"}
                    )
                except httpx2.HTTPError as failure:
                    why = str(failure) or type(failure).__name__
                else:
                    if response.status_code < _ERRORS_OF_SERVER and response.status_code != _TOO_MANY:
                        _check_answer(response, receipt, use_id)
                        return
                    why = f"it said {response.status_code}"
                if pause is not None:
                    await asyncio.sleep(pause)
        raise ReceiptRefused(
            f"the server cannot be reached ({why}), so it is not known whether the approval can be used or was used",
            try_again=True,
        )


class FileUses:
    """Counts uses in an SQLite file, for a place without a connection to the server.

    It knows only its own uses. It does not see that an approval was taken back, that an agent was stopped, or that
    the approval was used elsewhere; only the end of the receipt limits that. Everything that executes the tool must use
    the same file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    async def use(self, token: str, receipt: Receipt, *, use_id: str) -> None:
        """See `Uses.use`."""
        del token
        try:
            used_by = await asyncio.to_thread(self._use, receipt, use_id)
        except sqlite3.Error as error:
            raise ReceiptRefused(
                f"the file {self._path} cannot be written ({error})", try_again=True
            ) from error
        if used_by != use_id:
            raise ReceiptRefused("the approval has already been used")

    def _use(self, receipt: Receipt, use_id: str) -> str:
        """Record a use, unless there is one; return the id of the one that counts."""
        with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("pragma synchronous = full")
            connection.execute(_TABLE)
            connection.execute(
                "insert into uses (receipt, use_id, question, at) values (?, ?, ?, ?) on conflict do nothing",
                (receipt.id, use_id, receipt.question_id, datetime.now(UTC).isoformat()),
            )
            (used_by,) = connection.execute(
                "select use_id from uses where receipt = ?", (receipt.id,)
            ).fetchone()
        return str(used_by)


def _check_answer(response: httpx2.Response, receipt: Receipt, use_id: str) -> None:
    """Raise `ReceiptRefused` unless the server says that exactly this use counts."""
    if response.status_code == httpx2.codes.OK:
        with suppress(pydantic.ValidationError):
            used = UsedReceipt.model_validate_json(response.content)
            if (used.question_id, used.use_id) == (receipt.question_id, use_id):
                return
    elif response.headers.get("content-type", "").startswith(MEDIA_TYPE):
        try:
            problem = ProblemDocument.model_validate_json(response.content)
        except pydantic.ValidationError:
            pass
        else:
            raise ReceiptRefused((problem.reason or problem.detail).rstrip("."))
    raise ReceiptRefused(
        f"what answers at the server's address is not a Handraise server ({response.status_code})"
    )

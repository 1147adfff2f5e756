"""Receipts on the wire."""

from __future__ import annotations

from typing import Annotated

import pydantic

from handraise.wire.records import Record
from handraise.wire.requests import Request


class ReceiptToken(Record):
    """A receipt of an approval, as a signed token."""

    receipt: str = pydantic.Field(repr=False)


class UseReceipt(Request):
    """Use an approval up at the place where its action is executed.

    `use_id` is an id of your own for this one execution: the same id gets the same answer again.
    """

    receipt: Annotated[str, pydantic.Field(max_length=65_536, repr=False)]
    use_id: Annotated[str, pydantic.Field(min_length=1, max_length=200)]


class UsedReceipt(Record):
    """The approval that was used up, for this one execution."""

    question_id: str
    use_id: str


class ReceiptKeyRecord(Record):
    """A public key as a JSON Web Key (RFC 7517, RFC 8037)."""

    kty: str
    crv: str
    x: str
    kid: str
    alg: str
    use: str


class ReceiptKeySet(Record):
    """The public keys that receipts are verified with."""

    keys: tuple[ReceiptKeyRecord, ...]

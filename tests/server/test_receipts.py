"""Receipts over HTTP: who gets one, what uses an approval up, and what hostile tokens get."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest
from joserfc import jws
from joserfc.jwk import OctKey, OKPKey

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.errors import UnsafeStore
from handraise.model.identities import Role
from handraise.model.receipts import RECEIPT_LIFETIME
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.signing.key_files import make_key
from handraise.signing.receipt_tokens import load_receipt_key, load_verifier
from handraise.testing import ManualClock
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

PAY = Approval.of("pay", {"amount": 1})
Headers = dict[str, str]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "receipts.key")
    return tmp_path / "receipts.key"


@pytest.fixture
def limits() -> dict[str, str]:
    """What a test sets besides the key."""
    return {}


@pytest.fixture
def settings(key: Path, limits: dict[str, str]) -> dict[str, Any]:
    return {"receipt_key": key, **limits}


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


async def approved(desk: LocalDesk, form: Approval = PAY) -> str:
    """The id of a question that was approved."""
    question = await desk.post("Pay?", form=form)
    await desk.answer(question.id, "approve", by="ana")
    return question.id


async def used(client: httpx2.AsyncClient, token: str, use_id: str = "one") -> httpx2.Response:
    """The answer to a use."""
    return await client.post("/v1/receipts/use", json={"receipt": token, "use_id": use_id})


@on_every_store
@promise("P7", "P16")
async def test_a_use_uses_the_approval_up_and_the_same_use_is_answered_again(
    client: httpx2.AsyncClient, desk: LocalDesk, agent: Headers, clock: ManualClock
) -> None:
    question_id = await approved(desk)
    got = await client.get(f"/v1/questions/{question_id}/receipt", headers=agent)
    assert (got.status_code, got.headers["cache-control"]) == (200, "no-store")
    token = got.json()["receipt"]
    first = await used(client, token)
    assert (first.status_code, first.json()) == (200, {"question_id": question_id, "use_id": "one"})
    clock.advance(RECEIPT_LIFETIME)  # its response may have been lost for a while
    assert (await used(client, token)).json() == first.json()
    other = await used(client, token, "two")
    assert (other.status_code, other.json()["code"]) == (409, "already_consumed")
    consumed = await client.post(
        f"/v1/questions/{question_id}/consume", json={"request": "one"}, headers=agent
    )
    assert consumed.status_code == 409
    event = (await desk.history(question_id))[-1]
    assert (event.kind, event.data["request"]) == ("consumed", "receipt:one")


@promise("P16", "P18")
async def test_an_approval_that_cannot_be_used_any_more_is_not_used_with_an_older_receipt(
    client: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str, clock: ManualClock
) -> None:
    short = Approval.of("pay", {"amount": 1}, valid_for="5m")
    ids = [await approved(desk, form) for form in (PAY, PAY, short, PAY)]
    tokens = [await desk.receipt(each) for each in ids]
    await desk.take_back(ids[0], by="ana")
    await desk.consume_approval(ids[1])
    clock.advance(timedelta(minutes=5))
    codes = [(await used(client, token)).json()["code"] for token in tokens[:3]]
    assert codes == ["approval_taken_back", "already_consumed", "approval_lapsed"]
    stop = await ctx.policies.stop(workspace, agent=None, tool="pay", why="wrong account", by="boss")
    assert (await used(client, tokens[3])).status_code == 423
    await ctx.policies.resume(workspace, stop.id, by="boss")
    clock.advance(timedelta(minutes=10))
    refused = await used(client, tokens[3])
    assert (refused.status_code, refused.json()["code"]) == (403, "receipt_refused")
    assert "expired" in refused.json()["detail"]
    assert (await desk.get(ids[3])).consumed_at is None
    assert (await used(client, await desk.receipt(ids[3]))).status_code == 200


@promise("P16")
async def test_while_the_key_is_replaced_servers_with_the_old_and_the_new_one_accept_each_others_receipts(
    store: str, key: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.key"
    make_key(new)
    public = {each: Path(f"{each}.pub") for each in (key, new)}

    async def refusal(signs: Path, receives: Path, *accepted: Path) -> str | None:
        """How a server with one key refuses the receipt of a server with another."""
        async with open_server(ServerSettings(url=store, receipt_key=signs)) as ctx:
            desk = ctx.desk.scoped("default", asker="bot")
            token = await desk.receipt(await approved(desk))
        settings = ServerSettings(url=store, receipt_key=receives, receipt_key_fallbacks=accepted)
        async with open_server(settings) as ctx:
            transport = httpx2.ASGITransport(app=create_app(ctx))
            async with httpx2.AsyncClient(transport=transport, base_url="http://desk.example") as client:
                keys = (await client.get("/v1/receipt-keys")).json()["keys"]
                assert len(keys) == 1 + len(accepted)
                problem: str | None = (await used(client, token)).json().get("reason")
                return problem

    assert await refusal(key, new) == "it is signed with another key"
    assert await refusal(key, new, public[key]) is None
    assert await refusal(new, key) == "it is signed with another key"
    assert await refusal(new, key, public[new]) is None


def test_keys_that_are_accepted_need_one_that_signs_and_are_public(key: Path) -> None:
    with pytest.raises(pydantic.ValidationError, match="it needs HANDRAISE_RECEIPT_KEY"):
        ServerSettings(url="memory:", receipt_key_fallbacks=(Path(f"{key}.pub"),))
    with pytest.raises(pydantic.ValidationError, match="it needs HANDRAISE_SECRET"):
        ServerSettings(url="memory:", secret_fallbacks=("an earlier one",))
    with pytest.raises(UnsafeStore, match=r"Name the \.pub file of a key"):
        load_receipt_key(key, [key])


async def test_only_the_agent_that_asked_gets_a_receipt(
    client: httpx2.AsyncClient, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    question_id = await approved(desk)
    path = f"/v1/questions/{question_id}/receipt"
    other = bearer(await issuer.agent(workspace, "other"))
    elsewhere = bearer(await issuer.agent("elsewhere", "bot"))
    admin = bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))
    got = [(await client.get(path, headers=each)).status_code for each in (other, elsewhere, admin, {})]
    assert got == [404, 404, 403, 401]


async def test_the_public_key_is_there_for_everybody(
    client: httpx2.AsyncClient, desk: LocalDesk, tmp_path: Path, clock: ManualClock
) -> None:
    got = await client.get("/v1/receipt-keys")
    [key] = got.json()["keys"]
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("OKP", "Ed25519", "Ed25519", "sig")
    assert "d" not in key
    (tmp_path / "keys.json").write_bytes(got.content)
    question_id = await approved(desk)
    token = await desk.receipt(question_id)
    assert load_verifier([tmp_path / "keys.json"]).verify(token, now=clock.now()).question_id == question_id


@pytest.mark.parametrize("settings", [{}])
async def test_without_a_key_it_says_what_to_set(
    client: httpx2.AsyncClient, desk: LocalDesk, agent: Headers
) -> None:
    question_id = await approved(desk)
    for got in (
        await client.get(f"/v1/questions/{question_id}/receipt", headers=agent),
        await used(client, "a.b.c"),
    ):
        assert (got.status_code, got.json()["code"]) == (404, "no_receipt_key")
        assert "HANDRAISE_RECEIPT_KEY" in got.json()["detail"]
    assert (await client.get("/v1/receipt-keys")).json() == {"keys": []}


def _part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _with_header(**changes: Any) -> Callable[[str, Path], str]:
    def forge(token: str, _: Path) -> str:
        header, payload, signature = token.split(".")
        said = json.loads(base64.urlsafe_b64decode(header + "=="))
        said = {name: value for name, value in {**said, **changes}.items() if value is not None}
        return f"{_part(said)}.{payload}.{signature}"

    return forge


def _signed_by_another_key(token: str, _: Path) -> str:
    header, payload, _signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(header + "=="))
    text = base64.urlsafe_b64decode(payload + "==")
    return jws.serialize_compact(said, text, OKPKey.generate_key("Ed25519"), algorithms=["Ed25519"])


def _hmac_with_the_public_key(token: str, public: Path) -> str:
    header, payload, _signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(header + "=="))
    signed = f"{_part({**said, 'alg': 'HS256'})}.{payload}"
    return f"{signed}.{_part(hmac.digest(public.read_bytes(), signed.encode(), hashlib.sha256))}"


def _nested(token: str, _: Path) -> str:
    key = OctKey.generate_key(256)
    return jws.serialize_compact({"alg": "HS256", "cty": "JWT"}, token.encode(), key)


def _with_payload(**changes: Any) -> Callable[[str, Path], str]:
    def forge(token: str, _: Path) -> str:
        header, payload, signature = token.split(".")
        said = json.loads(base64.urlsafe_b64decode(payload + "=="))
        return f"{header}.{_part({**said, **changes})}.{signature}"

    return forge


HOSTILE: dict[str, Callable[[str, Path], Any]] = {
    "alg none": _with_header(alg="none"),
    "alg none and no signature": lambda token, public: (
        f"{_with_header(alg='none')(token, public).rpartition('.')[0]}."
    ),
    "EdDSA by its older name": _with_header(alg="EdDSA"),
    "HS256 with the public key": _hmac_with_the_public_key,
    "another kid": _with_header(kid="0123456789abcdef"),
    "no kid": _with_header(kid=None),
    "a kid that is a list": _with_header(kid=["a"]),
    "another typ": _with_header(typ="JWT"),
    "a key of its own": _with_header(jwk={"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}),
    "a critical header": _with_header(crit=["exp"]),
    "an unencoded payload": _with_header(b64=False, crit=["b64"]),
    "another key under our kid": _signed_by_another_key,
    "another workspace": _with_payload(workspace="elsewhere"),
    "a longer life": _with_payload(exp=9_999_999_999),
    "nested": _nested,
    "cut": lambda token, _: token[:-4],
    "doubled": lambda token, _: f"{token}.{token}",
    "no text": lambda *_: "",
    "one dot": lambda *_: "a.b",
    "no base64": lambda *_: "!.!.!",
    "a header that is a list": lambda *_: f"{_part([])}.{_part({})}.{_part(b'')}",
    "a header that is nested deeply": lambda *_: f"{_part(b'[' * 300)}.e30.e30",
    "not ASCII": lambda token, _: f"{token}ä",
    "half of a surrogate pair": lambda *_: "\ud800",
    "NUL": lambda token, _: f"{token}\x00",
    "large": lambda token, _: token + "A" * 60_000,
    "too large": lambda token, _: token + "A" * 400_000,
    "huge": lambda token, _: token + "A" * 600_000,
    "a number": lambda *_: 1,
    "nothing": lambda *_: None,
}


@promise("P11", "P16")
@pytest.mark.parametrize("limits", [{"sign_in_limit": "1000/minute"}])
async def test_a_hostile_token_is_refused_and_uses_nothing_up(
    client: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, key: Path
) -> None:
    question_id = await approved(desk)
    token = await desk.receipt(question_id)
    for name, forge in HOSTILE.items():
        body = json.dumps({"receipt": forge(token, Path(f"{key}.pub")), "use_id": "one"})
        got = await client.post(
            "/v1/receipts/use", content=body, headers={"content-type": "application/json"}
        )
        assert got.status_code in (403, 413, 422), (name, got.status_code, got.text)
        assert got.json()["code"] in ("receipt_refused", "invalid_request", "http_error"), name
    for use_id in ("", "u" * 201, "\x00", "\ud800", "receipt:one", None):
        body = json.dumps({"receipt": token, "use_id": use_id})
        got = await client.post(
            "/v1/receipts/use", content=body, headers={"content-type": "application/json"}
        )
        assert got.status_code == 422, use_id
    assert (await desk.get(question_id)).consumed_at is None
    assert ctx.receipt_key is not None
    assert (await used(client, token)).status_code == 200


@pytest.mark.parametrize("limits", [{"sign_in_limit": "3/minute", "rate_limit": "3/minute"}])
async def test_forged_tokens_and_repeated_uses_are_limited(
    client_from: Callable[[str], httpx2.AsyncClient], desk: LocalDesk
) -> None:
    token = await desk.receipt(await approved(desk))
    async with client_from("192.0.2.7") as one, client_from("192.0.2.8") as other:
        forged = [(await used(one, "a.b.c")).status_code for _ in range(4)]
        assert forged == [403, 403, 403, 429]
        # Others are not affected, and neither is a receipt that is valid.
        assert (await used(other, "a.b.c")).status_code == 403
        valid = [(await used(one, token)).status_code for _ in range(4)]
        assert valid == [200, 200, 200, 429]

"""Stand-ins for what mail without passwords needs: an issuer of tokens, mail servers that take them, Graph, and SES.

They check every token and signature by themselves, and refuse what the real services refuse.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from aiohttp import web
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.channels.mail_servers import PASSWORD, USER, Imap, Mail, PostOffice, improper

CLIENT, SECRET = "11111111-2222-4333-8444-555555555555", "client~secret / with signs"
REFRESH = "refresh-token-of-the-mailbox"
ACCESS_KEY, SECRET_KEY = "AKIDHANDRAISE0000001", "secret+access/key"
SESSION_TOKEN = "session-token-of-a-role"  # noqa: S105 -- of nobody
REGION = "eu-central-1"
_GOOGLE = "https://mail.google.com/"
_CLOCK_TOLERANCE = 300.0


@dataclass
class TokenIssuer:
    """A token endpoint of Microsoft's and Google's kind."""

    url: str = ""
    lasts: int = 3_599
    rotates: bool = False
    """Whether each refresh token is accepted only once."""
    requests: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failure: tuple[int, dict[str, str]] | None = None
    """What it answers instead of tokens."""
    gate: asyncio.Event | None = None
    """It answers once this is set."""
    refresh: str = REFRESH
    tokens: dict[str, tuple[str, str | None, float]] = field(default_factory=dict)
    """The scope, the user and the end of each token."""
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65_537, 2_048))
    account: str = "mailer@project.iam.gserviceaccount.com"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def key_file(self) -> str:
        """The key of a service account, as Google writes it."""
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return json.dumps(
            {
                "type": "service_account",
                "project_id": "project",
                "private_key": pem.decode(),
                "client_email": self.account,
                "token_uri": self.token_url,
            }
        )

    def accepts(self, token: str, scope: str, user: str | None = None) -> bool:
        """Whether a token is one of ours, for this, and has not ended."""
        found_scope, found_user, until = self.tokens.get(token, ("", None, 0.0))
        return found_scope == scope and time.time() < until and found_user in (None, user)

    def end_all(self) -> None:
        """Let all tokens have ended, without anybody being told."""
        self.tokens = {token: (scope, user, 0.0) for token, (scope, user, _) in self.tokens.items()}

    async def answer(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            return web.json_response(self.failure[1], status=self.failure[0])
        scope, user, problem = form.get("scope", ""), None, None
        more = {}
        match form.get("grant_type"):
            case "client_credentials":
                problem = self._client_problem(form) or (None if scope else "invalid_scope")
            case "refresh_token":
                scope = scope or _GOOGLE
                problem = self._client_problem(form)
                if form.get("refresh_token") != self.refresh:
                    problem = "invalid_grant"
                elif self.rotates and problem is None:
                    self.refresh = more["refresh_token"] = secrets.token_urlsafe(20)
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                claims = self._claims(form.get("assertion", ""))
                scope, user = claims.get("scope", ""), claims.get("sub")
                problem = None if claims else "invalid_grant"
            case _:
                problem = "unsupported_grant_type"
        if problem is not None:
            self.refused.append(problem)
            description = "AADSTS7000215: Invalid client secret provided."
            return web.json_response({"error": problem, "error_description": description}, status=401)
        token = f"token-{secrets.token_urlsafe(30)}"
        self.tokens[token] = (scope, user, time.time() + self.lasts)
        told = {"token_type": "Bearer", "access_token": token, "expires_in": self.lasts, **more}
        return web.json_response(told)

    def _client_problem(self, form: dict[str, str]) -> str | None:
        fits = (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        return None if fits else "invalid_client"

    def _claims(self, assertion: str) -> dict[str, Any]:
        """What a signed statement of the service account says; nothing if anything is wrong with it."""
        head, body, signature = [*assertion.split("."), "", ""][:3]
        with contextlib.suppress(Exception):
            self.key.public_key().verify(
                _decoded(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            claims: dict[str, Any] = json.loads(_decoded(body))
            now = time.time()
            fits = (claims["iss"], claims["aud"]) == (self.account, self.token_url)
            if fits and claims["iat"] <= now < claims["exp"] <= claims["iat"] + 3_600:
                return claims
        return {}


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def read_xoauth2(encoded: str | bytes) -> tuple[str, str] | None:
    """The user and the token of a response, exactly as the mechanism has it."""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return None
    found = re.fullmatch(r"user=([^\x01]+)\x01auth=Bearer ([^\x01]+)\x01\x01", text)
    return None if found is None else (found[1], found[2])


def challenge(scope: str) -> bytes:
    """How servers say why they refuse a token, before they do."""
    return base64.b64encode(json.dumps({"status": "401", "schemes": "Bearer", "scope": scope}).encode())


@dataclass
class TokenPostOffice(PostOffice):
    """An SMTP server whose users have no passwords."""

    issuer: TokenIssuer = field(default_factory=TokenIssuer)
    scope: str = _GOOGLE
    user: str = "desk@example.org"
    signed_in: list[str] = field(default_factory=list)
    refused: int = 0

    async def handle_MAIL(  # noqa: N802 -- aiosmtpd calls it so
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        del server, options
        if not session.authenticated:
            return "530 5.7.57 Client not authenticated to send mail"
        envelope.mail_from = address
        return "250 OK"

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:  # noqa: N802 -- aiosmtpd calls it so
        found = read_xoauth2(args[1]) if len(args) == 2 else None
        if found and found[0] == self.user and self.issuer.accepts(found[1], self.scope, found[0]):
            self.signed_in.append(found[1])
            return AuthResult(success=True, auth_data=found[0])
        self.refused += 1
        # Only after an empty answer to the challenge does a server say that it refuses.
        if await server.challenge_auth(challenge(self.scope), encode_to_b64=False) == b"":
            await server.push("535 5.7.3 Authentication unsuccessful")
        return AuthResult(success=False, handled=True)


@dataclass
class TokenImap:
    """A real IMAP server behind a door that takes tokens only."""

    imap: Imap
    issuer: TokenIssuer
    scope: str = _GOOGLE
    user: str = "reply@example.org"
    port: int = 0
    signed_in: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def url(self) -> str:
        return f"imap://{quote(self.user, safe='')}@127.0.0.1:{self.port}/INBOX?tls=none"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, to_inner = await asyncio.open_connection("127.0.0.1", self.imap.port)
        try:
            writer.write(await inner.readline())
            await self._sign_in(reader, writer, inner, to_inner)
            await asyncio.gather(_copy(reader, to_inner), _copy(inner, writer))
        except (OSError, EOFError):
            pass
        finally:
            for each in (writer, to_inner):
                each.close()

    async def _sign_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        inner: asyncio.StreamReader,
        to_inner: asyncio.StreamWriter,
    ) -> None:
        while True:
            line = await reader.readline()
            tag, _, command = line.decode().strip().partition(" ")
            if not tag:
                raise EOFError
            match command.upper().split():
                case ["CAPABILITY"]:
                    writer.write(f"* CAPABILITY IMAP4rev1 AUTH=XOAUTH2\r\n{tag} OK done\r\n".encode())
                case ["AUTHENTICATE", "XOAUTH2"]:
                    writer.write(b"+ \r\n")
                    found = read_xoauth2((await reader.readline()).strip())
                    if (
                        found
                        and found[0] == self.user
                        and self.issuer.accepts(found[1], self.scope, found[0])
                    ):
                        self.signed_in.append(found[1])
                        password = PASSWORD.replace('"', '\\"')
                        to_inner.write(f'{tag} LOGIN {USER} "{password}"\r\n'.encode())
                        writer.write(await inner.readline())
                        return
                    self.refused += 1
                    writer.write(b"+ " + challenge(self.scope) + b"\r\n")
                    said = "NO [AUTHENTICATIONFAILED] Invalid credentials (Failure)"
                    if await reader.readline() != b"\r\n":
                        said = "BAD the answer is not empty"
                    writer.write(f"{tag} {said}\r\n".encode())
                case _:
                    writer.write(f"{tag} NO Basic authentication is disabled.\r\n".encode())


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@dataclass
class GraphPeer:
    """Microsoft Graph with mailboxes that an application may send from."""

    issuer: TokenIssuer
    office: PostOffice
    url: str = ""
    senders: tuple[str, ...] = ("desk@example.org",)
    forbidden: tuple[str, ...] = ()
    failures: list[tuple[int, str]] = field(default_factory=list)
    """What it answers to the next requests."""
    refused: list[str] = field(default_factory=list)

    @property
    def api_url(self) -> str:
        return f"{self.url}/v1.0"

    async def send_mail(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not self.issuer.accepts(token, f"{self.url}/.default"):
            return self._refuse(401, "InvalidAuthenticationToken")
        if self.failures:
            return self._refuse(*self.failures.pop(0))
        sender = unquote(request.match_info["user"])
        if sender in self.forbidden:
            return self._refuse(403, "ErrorAccessDenied")
        if sender not in self.senders:
            return self._refuse(404, "ErrorInvalidUser")
        body = await request.read()
        if len(body) > 4_000_000:
            return self._refuse(413, "RequestEntityTooLarge")
        if request.content_type != "text/plain":
            return self._refuse(415, "UnsupportedMediaType")
        try:
            raw = base64.b64decode(body, validate=True)
        except ValueError:
            return self._refuse(400, "ErrorMimeContentInvalidBase64String")
        mail = Mail(sender, "", raw)
        if not raw or improper(raw) or parseaddr(str(mail.message["from"]))[1] != sender:
            return self._refuse(400, "ErrorMimeContentInvalid")
        name = f"{secrets.token_hex(16).upper()}@AM0PR01MB0001.eurprd01.prod.outlook.com"
        to = parseaddr(str(mail.message["to"]))[1]
        self.office.mails.append(Mail(sender, to, with_id(raw, name)))
        return web.Response(status=202)

    def _refuse(self, status: int, code: str) -> web.Response:
        self.refused.append(code)
        told = {"error": {"code": code, "message": "not shown", "innerError": {"request-id": "1"}}}
        headers = {"retry-after": "7"} if status == 429 else {}
        return web.json_response(told, status=status, headers=headers)


@dataclass
class SesPeer:
    """Amazon SES with one verified sender."""

    office: PostOffice
    url: str = ""
    senders: tuple[str, ...] = ("desk@example.org",)
    session_token: str | None = None
    may_get_account: bool = True
    is_paused: bool = False
    failures: list[tuple[int, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    configuration_sets: list[str | None] = field(default_factory=list)

    async def send_email(self, request: web.Request) -> web.Response:
        body = await request.read()
        if (problem := self._signature_problem(request, body)) is not None:
            return self._refuse(403, problem)
        if self.failures:
            return self._refuse(*self.failures.pop(0))
        asked = json.loads(body)
        raw = base64.b64decode(asked["Content"]["Raw"]["Data"], validate=True)
        sender = asked["FromEmailAddress"]
        if sender not in self.senders:
            return self._refuse(400, "MessageRejected", "Email address is not verified.")
        if (why := improper(raw)) is not None:
            return self._refuse(400, "BadRequestException", why)
        self.configuration_sets.append(asked.get("ConfigurationSetName"))
        name = f"0107{secrets.token_hex(8)}-{secrets.token_hex(4)}-000000"
        [to] = asked["Destination"]["ToAddresses"]
        # SES replaces what the sender wrote into this header.
        self.office.mails.append(Mail(sender, to, with_id(raw, f"{name}@{REGION}.amazonses.com")))
        return web.json_response({"MessageId": name})

    async def get_account(self, request: web.Request) -> web.Response:
        if (problem := self._signature_problem(request, b"")) is not None:
            return self._refuse(403, problem)
        if not self.may_get_account:
            return self._refuse(403, "AccessDeniedException")
        return web.json_response({"SendingEnabled": not self.is_paused, "ProductionAccessEnabled": True})

    def _signature_problem(self, request: web.Request, body: bytes) -> str | None:
        """Compute the signature anew from the request as it came, as AWS describes it."""
        given = request.headers.get("authorization", "")
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)",
            given,
        )
        if found is None:
            return "IncompleteSignatureException"
        key, day, region, service, names, signature = found.groups()
        stamp = request.headers.get("x-amz-date", "")
        if key != ACCESS_KEY:
            return "UnrecognizedClientException"
        if request.headers.get("x-amz-security-token") != self.session_token:
            return "ExpiredTokenException"
        at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(time.time() - at.timestamp()) > _CLOCK_TOLERANCE or not stamp.startswith(day):
            return "SignatureDoesNotMatch"
        signed = names.split(";")
        if "host" not in signed or "x-amz-date" not in signed or (region, service) != (REGION, "ses"):
            return "SignatureDoesNotMatch"
        query = "&".join(
            f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
            for name, value in sorted(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
        )
        canonical = "\n".join(
            [
                request.method,
                quote(request.rel_url.raw_path, safe="/-_.~"),
                query,
                *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in signed),
                "",
                names,
                hashlib.sha256(body).hexdigest(),
            ]
        )
        place = f"{day}/{region}/{service}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{place}\n{digest}"
        made = f"AWS4{SECRET_KEY}".encode()
        for part in (day, region, service, "aws4_request"):
            made = hmac.digest(made, part.encode(), "sha256")
        right = hmac.digest(made, text.encode(), "sha256").hex()
        return None if hmac.compare_digest(right, signature) else "SignatureDoesNotMatch"

    def _refuse(self, status: int, code: str, said: str = "not shown") -> web.Response:
        self.refused.append(code)
        return web.json_response({"message": said}, status=status, headers={"x-amzn-errortype": code})


def with_id(raw: bytes, name: str) -> bytes:
    """A mail with another Message-ID, as a service makes it of what it is given."""
    head, _, body = raw.partition(b"\r\n\r\n")
    changed, number = re.subn(
        rb"(?im)^message-id:[^\r]*(\r\n[ \t][^\r]*)*", f"Message-ID: <{name}>".encode(), head
    )
    assert number == 1
    return changed + b"\r\n\r\n" + body


@asynccontextmanager
async def serving_app(app: web.Application) -> AsyncIterator[str]:
    """Where an app listens on loopback, for as long as this context lasts."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def token_issuer() -> AsyncIterator[TokenIssuer]:
    issuer = TokenIssuer()
    app = web.Application()
    app.router.add_post("/token", issuer.answer)
    async with serving_app(app) as issuer.url:
        yield issuer


@asynccontextmanager
async def graph_peer(issuer: TokenIssuer, office: PostOffice) -> AsyncIterator[GraphPeer]:
    peer = GraphPeer(issuer, office)
    app = web.Application(client_max_size=20_000_000)
    app.router.add_post("/v1.0/users/{user}/sendMail", peer.send_mail)
    async with serving_app(app) as peer.url:
        yield peer


@asynccontextmanager
async def ses_peer(office: PostOffice) -> AsyncIterator[SesPeer]:
    peer = SesPeer(office)
    app = web.Application(client_max_size=20_000_000)
    app.router.add_post("/v2/email/outbound-emails", peer.send_email)
    app.router.add_get("/v2/email/account", peer.get_account)
    async with serving_app(app) as peer.url:
        yield peer


@asynccontextmanager
async def token_imap(imap: Imap, issuer: TokenIssuer) -> AsyncIterator[TokenImap]:
    door = TokenImap(imap, issuer)
    server = await asyncio.start_server(door.serve, "127.0.0.1", 0)
    door.port = server.sockets[0].getsockname()[1]
    try:
        yield door
    finally:
        server.close()

"""The channel itself: sends questions, follows them up when they have ended, and takes what people reply.

An address is `{"address": "ann@example.org"}`, or just that, and its id is the address in lower case: it identifies
somebody who replies. A mail cannot be taken back, so a second one says how the question ended.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.headerregistry import Address
from itertools import islice
from typing import TypeVar, get_args

from handraise.channels.email.inbound_mail import InboundMail, InvalidPayload, parse_mail, passes, text_of
from handraise.channels.email.mail_body import (
    Rendered,
    brand,
    conversation_of,
    render_bundle,
    render_lines,
    render_outcome,
    render_question,
    render_text,
)
from handraise.channels.email.mail_texts import on_replying, only_on_the_page, subject_of
from handraise.channels.email.mime import build_mail, id_host
from handraise.channels.email.reply_address import ReplyAddress, ReplyAddresses, Token
from handraise.channels.email.reply_parser import Marks, fresh_text
from handraise.channels.email.server_urls import MailServer, address_in
from handraise.channels.email.transport import MailTransport
from handraise.channels.inbound_replies import Replies, Reply, ReplyResult, is_message
from handraise.channels.message_texts import heading_of, tells_several, why_now
from handraise.channels.oauth_tokens import AccessTokens
from handraise.channels.sent_files import files_of
from handraise.channels.typed_messages import read_message
from handraise.model.deliveries import Reason
from handraise.model.errors import (
    AttachmentNotFound,
    DeskClosed,
    QuestionNotFound,
    RequestConflict,
    StoreUnavailable,
)
from handraise.model.evidence import EMAIL_SENDER
from handraise.model.forms import Approval
from handraise.model.json_values import Json, canonical_json, digest
from handraise.model.people import ANYONE
from handraise.model.questions import Question
from handraise.model.sharing_rules import may_be_several
from handraise.model.typed_replies import Understood, read_deed, read_reply
from handraise.model.webhook_signatures import genuine
from handraise.ports.channel import Message, Notice, NotSent, Response
from handraise.presentation.translation import Locale, gettext, languages, use_locale

_log = logging.getLogger(__name__)
_K = TypeVar("_K")
_V = TypeVar("_V")

_PATIENCE = timedelta(days=2)
_MOST_REMEMBERED = 10_000
_MOST_TOLD = 5
_MOST_CLAIMS = 5
_TOLD_WITHIN = 3_600.0


@asynccontextmanager
async def open_email(
    replies: Replies,
    *,
    transport: MailTransport,
    sender: Address,
    host: str,
    reply_to: str | None = None,
    keys: Sequence[bytes] = (),
    imap: MailServer | None = None,
    imap_tokens: AccessTokens | None = None,
    inbound_secret: bytes | None = None,
    authserv_id: str | None = None,
    verify: ssl.SSLContext | None = None,
) -> AsyncIterator[Email]:
    """E-mail sent this way, for as long as this context lasts.

    `host` is ours, for the ids of mails. Replies go to `reply_to` with a code made with `key`, and are fetched over
    IMAP, with a token if there are `imap_tokens`, or posted here with a signature. With `authserv_id`, the receiving server must have found that the sender's
    domain sent them. `verify` says whose certificates are trusted, if not the system's.
    """
    channel = Email(
        replies,
        transport,
        sender=sender,
        host=id_host(host),
        addresses=ReplyAddresses(reply_to, *keys) if reply_to is not None and keys else None,
        inbound_secret=inbound_secret,
        authserv_id=authserv_id,
    )
    async with AsyncExitStack() as stack:
        if imap is not None:
            from handraise.channels.email.mailbox import mailbox_reader  # noqa: PLC0415 -- only where it is wanted

            reader = mailbox_reader(imap, channel.take, tokens=imap_tokens, verify=verify)
            await stack.enter_async_context(reader)
        yield channel


class Email:
    """Tells people by e-mail and takes their replies. See `handraise.ports.channel`."""

    name = "email"
    private = True
    patience = _PATIENCE

    def __init__(
        self,
        replies: Replies,
        transport: MailTransport,
        *,
        sender: Address,
        host: str,
        addresses: ReplyAddresses | None = None,
        inbound_secret: bytes | None = None,
        authserv_id: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._replies = replies
        self._transport = transport
        self._sender = sender
        self._host = host
        self._addresses = addresses
        self._inbound_secret = inbound_secret
        self._authserv_id = authserv_id
        self._now = now
        self._told: OrderedDict[str, None] = OrderedDict()
        self._tellings: OrderedDict[tuple[str, str, str], tuple[int, float]] = OrderedDict()

    @property
    def takes_requests(self) -> bool:
        """Whether mails may be posted here: there is a secret."""
        return self._inbound_secret is not None

    def rate_limit_key(self, to: Json) -> str | None:
        """What delivers the mails, which is the same for everybody."""
        return None if address_in(to) is None else self._transport.rate_limit_key

    async def send(self, message: Message) -> Json:
        """Send a question, or several that waited."""
        if len(message.notices) != 1:
            rendered = render_bundle(message, server=self._host)
            await self._mail(message.to, rendered, id=f"{message.id}@{self._host}", at=message.at)
            return {"questions": len(message.notices)}
        [notice] = message.notices
        seen = conversation_of(notice).seen
        back = self._back(message.workspace, notice.question.id, message.recipient, seen or 0)
        how = on_replying(
            notice.question,
            by_reply=back is not None,
            checked=self._authserv_id is not None,
            several=tells_several(notice.question, notice.reason),
            shows_thread=seen is not None,
        )
        rendered = render_question(message, notice, how=how, server=self._host)
        name = self._id(message.id, back)
        given = await self._mail(
            message.to,
            rendered,
            id=name,
            at=message.at,
            back=back,
            thread=self._thread(notice.question),
            files=await self._files(notice),
        )
        shown: list[Json] = [rendered.subject, rendered.text, rendered.html]
        return {"questions": 1, "id": given or name, "shown": digest(shown)}

    async def update(self, message: Message, receipt: Json) -> None:
        """Follow a mail up with how its question ended and what came of it; a mail about several is left as it is."""
        [notice] = message.notices
        sent = receipt if isinstance(receipt, dict) else {}
        ended, report = notice.question.outcome, notice.question.report
        if ended is None or sent.get("questions", 1) != 1:
            return
        back = self._back(message.workspace, notice.question.id, message.recipient)
        await self._mail(
            message.to,
            render_outcome(message, notice, server=self._host),
            id=self._id(f"{message.id}.{'ended' if report is None else 'reported'}", back),
            at=ended.at if report is None else report.at,
            # The writer of a late reply is told that it is late.
            back=back,
            in_reply_to=sent.get("id") or self._id(message.id, back),
            thread=self._thread(notice.question),
        )

    async def send_text(
        self,
        to: Json,
        *,
        id: str,  # noqa: A002 -- as in `Message`
        at: datetime,
        subject: str,
        text: str,
        lines: Sequence[str],
    ) -> None:
        """Send a text that is not about a pending question; see `handraise.ports.channel.TextSender`."""
        rendered = render_lines(subject=subject, text=text, lines=lines, server=self._host)
        await self._mail(to, rendered, id=f"{digest(id)[:32]}.text@{self._host}", at=at)

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Response:
        """Take a mail that was posted as it came; see `handraise.ports.channel.Receiver`."""
        if self._inbound_secret is None:
            return Response(status=404)
        if not genuine(headers, body, [self._inbound_secret], now=self._now()):
            return Response(status=401)
        # The request was in order, whatever mail it is: a refusal would only make the mail server bounce it.
        return Response(status=204 if await self.take(body) else 503)

    async def take(self, raw: bytes) -> bool:
        """Handle a mail that came in; False if it must come again.

        Anything but a reply from somebody we know, to a question that they were sent, is ignored silently.
        """
        try:
            mail = parse_mail(raw)
            found = await self._find(mail)
            if found is None:
                return True
            return await self._take(mail, *found)
        except InvalidPayload as error:
            _log.info("a mail was passed over: %s", error, extra={"event": "mail_passed_over"})
        except (StoreUnavailable, RequestConflict, DeskClosed) as error:
            _log.warning("a reply by mail waits: %s", error, extra={"event": "mail_waits"})
            return False
        return True

    async def _find(self, mail: InboundMail) -> tuple[Token, str] | None:
        """Which question a mail answers, and as which recipient, as far as both are proven."""
        if self._addresses is None or mail.automatic:
            return None
        for token in islice(self._addresses.read(mail.to, mail.references), _MOST_CLAIMS):
            responder = await self._replies.find_responder(token.workspace, self.name, mail.sender)
            if responder is None:
                continue
            recipient = self._addresses.recipient_of(token, (*responder.principals, ANYONE))
            if recipient is None:
                continue
            if self._authserv_id is not None and not passes(mail, self._authserv_id):
                _log.warning(
                    "a reply by mail was passed over: its sender's domain was not found to have sent it",
                    extra={"event": "mail_passed_over"},
                )
                return None
            return token, recipient
        return None

    async def _take(self, mail: InboundMail, token: Token, recipient: str) -> bool:
        found = await self._replies.find_question(token.workspace, self.name, mail.sender, token.question_id)
        if isinstance(found, ReplyResult):
            return await self._say(mail, found, "", token, recipient)
        text = fresh_text(text_of(mail), self._marks(mail, found))
        message = read_message(found, text)
        decides = found.outcome is None and message is None and read_deed(found, text) is None
        if decides and (why := self._elsewhere(found, text)) is not None:
            said = ReplyResult("misfit", why, found)
        else:
            said = await self._replies.take(
                Reply(
                    workspace=token.workspace,
                    question_id=token.question_id,
                    channel=self.name,
                    identity=mail.sender,
                    evidence=EMAIL_SENDER,
                    id=mail.id,
                    text=text if message is None else message[1],
                    seen=token.seen,
                    writes=None if message is None else message[0],
                    details={"domain_checked": self._authserv_id is not None},
                )
            )
        return await self._say(mail, said, text, token, recipient)

    def _elsewhere(self, question: Question, text: str) -> str | None:
        """Why a reply cannot decide it, and what can; None if it can."""
        if is_message(question, text):
            several, checked = may_be_several(question), self._authserv_id is not None
            how = on_replying(question, by_reply=True, checked=checked, several=several)
            return " ".join(filter(None, (gettext("That decides nothing."), how)))
        elsewhere = only_on_the_page(question)
        if elsewhere is not None or self._authserv_id is not None or not isinstance(question.form, Approval):
            return elsewhere
        read = read_reply(question, text)
        if isinstance(read, Understood) and read.value["decision"] == "approve":
            return gettext(
                "You can deny by reply, but not approve: nobody checks here that a mail is from whom it says."
            )
        return None

    async def _say(
        self, mail: InboundMail, said: ReplyResult, read: str, token: Token, recipient: str
    ) -> bool:
        """Tell somebody once what came of their reply. If the answer counts, the mail about the end says so."""
        settled = said.question is not None and said.question.outcome is not None
        if said.kind == "taken" and settled:
            return True
        asked = (token.workspace, token.question_id, mail.sender)
        if mail.id in self._told or not self._may_tell(asked):
            return True
        back = self._back(token.workspace, token.question_id, recipient, token.seen)
        waits = said.question is not None and not settled and only_on_the_page(said.question) is None
        written = build_mail(
            render_text(said, read, again=waits and said.kind == "misfit", server=self._host),
            sender=self._sender,
            to=mail.sender,
            id=self._id(f"{mail.id[:32]}.said", back),
            at=datetime.fromtimestamp(self._now(), UTC),
            auto="auto-replied",
            reply_to=None if back is None else back.address,
            in_reply_to=mail.message_id,
            references=self._references(back),
        )
        try:
            await self._transport.hand_over(written, sender=self._sender.addr_spec, to=mail.sender)
        except NotSent as error:
            _log.warning(
                "somebody could not be told what came of their reply: %s",
                error,
                extra={"event": "mail_reply_not_sent"},
            )
            return not error.again
        _remember(self._told, mail.id, None)
        times, until = self._tellings.get(asked, (0, self._now() + _TOLD_WITHIN))
        _remember(self._tellings, asked, (times + 1, until))
        return True

    def _may_tell(self, asked: tuple[str, str, str]) -> bool:
        """Whether somebody was not told too often already: two machines that answer each other have to stop."""
        times, until = self._tellings.get(asked, (0, 0.0))
        if self._now() >= until:
            self._tellings.pop(asked, None)
            return True
        return times < _MOST_TOLD

    async def _mail(
        self,
        given: Json,
        rendered: Rendered,
        *,
        id: str,  # noqa: A002 -- a Message-ID, without its brackets
        at: datetime,
        back: ReplyAddress | None = None,
        in_reply_to: str | None = None,
        thread: str | None = None,
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str | None:
        to = address_in(given)
        if to is None:
            raise NotSent("that is no e-mail address", again=False)
        mail = build_mail(
            rendered,
            sender=self._sender,
            to=to,
            id=id,
            at=at,
            auto="auto-generated",
            reply_to=None if back is None else back.address,
            in_reply_to=in_reply_to,
            references=[*([] if thread is None else [thread]), *self._references(back)],
            files=files,
        )
        return await self._transport.hand_over(mail, sender=self._sender.addr_spec, to=to)

    async def _files(self, notice: Notice) -> Sequence[tuple[str, bytes]]:
        """The files that a mail brings along, unless they are too large."""
        files = files_of(notice)
        if not files or sum(each.size for each in files) > self._transport.most_attached:
            return ()
        try:
            return [(each.name, await self._replies.read_file(notice.question, each)) for each in files]
        except (AttachmentNotFound, QuestionNotFound):  # it was removed meanwhile; the page says so
            return ()

    def _back(self, workspace: str, question_id: str, recipient: str, seen: int = 0) -> ReplyAddress | None:
        if self._addresses is None:
            return None
        return self._addresses.make(workspace, question_id, recipient, seen=seen)

    def _id(self, name: str, back: ReplyAddress | None) -> str:
        return f"{name}{f'.{back.place}' if back and back.place else ''}@{self._host}"

    def _references(self, back: ReplyAddress | None) -> Sequence[str]:
        """What a reply must name that is in no address: services may give a mail another id, and keep these."""
        return [f"reply.{back.place}@{self._host}"] if back and back.place else []

    def _thread(self, question: Question) -> str:
        """What all mails about a question refer to."""
        place = canonical_json([question.workspace, question.id])
        return f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.question@{self._host}"

    def _marks(self, mail: InboundMail, question: Question) -> Marks:
        reasons: tuple[Reason, ...] = get_args(Reason)
        lines = [brand(self._host)]
        # A mail to a group, or one of last week, may be in another language than the one that this person reads.
        for language in languages():
            with use_locale(Locale(language)):
                lines.append(heading_of(question))
                for reason in reasons:
                    lines += [subject_of(question, reason), why_now(reason) or ""]
        return Marks(
            addresses=(self._sender.addr_spec,),
            name=self._sender.display_name,
            lines=lines,
            writer=mail.sender_name,
        )


def _remember(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST_REMEMBERED:
        kept.popitem(last=False)

"""What is new in a reply, as mail programs of all kinds send it."""

from __future__ import annotations

import contextlib
import email.mime.multipart
import email.mime.text
import random

import pytest

from handraise.channels.email.html_text import html_text
from handraise.channels.email.inbound_mail import InvalidPayload, parse_mail, passes, text_of
from handraise.channels.email.reply_address import ReplyAddresses
from handraise.channels.email.reply_parser import Marks, fresh_text, unflowed
from tests.tiers import drawn, sized

SUBJECT = "deploy-bot asks you to choose one: Which strategy for 1.2.3?"
MARKS = Marks(
    addresses=("desk@example.org",),
    name="Handraise",
    lines=(
        SUBJECT,
        "deploy-bot asks you to choose one",
        "A reminder: this still waits for an answer.",
        "Handraise · ask.example.org",
    ),
    writer="Ann Smith",
)
QUOTED = """> deploy-bot asks you to choose one:
>
> │ Which strategy for 1.2.3?
> │
> │ 1. Blue-green
> │ 2. Canary
>
> Open the page to answer:
> https://ask.example.org/q/hrq_x
>
> --
> This is Handraise at ask.example.org, workspace acme, for ann."""
COPIED = "\n".join(line.removeprefix(">").removeprefix(" ") for line in QUOTED.split("\n"))


def letter(body: bytes = b"Canary\r\n", /, **headers: str) -> bytes:
    given = {
        "From": "Ann Smith <Ann@Example.org>",
        "To": "reply+abc@example.org",
        "Subject": "Re: x",
        "Message-ID": "<1@mail.example.org>",
    } | {name.replace("_", "-"): text for name, text in headers.items()}
    return "".join(f"{name}: {text}\r\n" for name, text in given.items() if text).encode() + b"\r\n" + body


REPLIES = {
    "bare": "Canary",
    "Gmail": f"Canary\n\nOn Tue, Nov 3, 2026 at 2:00 PM Handraise <desk@example.org> wrote:\n\n{QUOTED}\n",
    "Gmail, broken line": f"Canary\n\nOn Tue, Nov 3, 2026 at 2:00 PM Handraise <\ndesk@example.org> wrote:\n\n{QUOTED}",
    "Gmail in German": f"Canary\n\nAm Di., 3. Nov. 2026 um 14:00 Uhr schrieb Handraise <\ndesk@example.org>:\n\n{QUOTED}",
    "Gmail in French": f"Canary\n\nLe mar. 3 nov. 2026 à 14:00, Handraise <desk@example.org> a écrit :\n\n{QUOTED}",
    "Gmail in Spanish": f"Canary\n\nEl mar, 3 nov 2026 a las 14:00, Handraise (<desk@example.org>) escribió:\n\n{QUOTED}",
    "Gmail in Japanese": f"Canary\n\n2026年11月3日(火) 14:00 Handraise <desk@example.org>:\n\n{QUOTED}",
    "Apple Mail": f"Canary\n\n> On 3. Nov 2026, at 14:00, Handraise <desk@example.org> wrote:\n> \n{QUOTED}\n",
    "Apple Mail in German": f"Canary\n\n> Am 03.11.2026 um 14:00 schrieb Handraise <desk@example.org>:\n> \n{QUOTED}\n",
    "iPhone": f"Canary\n\nSent from my iPhone\n\n> On 3 Nov 2026, at 14:00, Handraise <desk@example.org> wrote:\n> \n> ﻿\n{QUOTED}",
    "iPhone in German": f"Canary\n\nVon meinem iPhone gesendet\n\n> Am 03.11.2026 um 14:00 schrieb Handraise <desk@example.org>:\n{QUOTED}",
    "iPhone in French": f"Canary\n\nEnvoyé de mon iPhone\n\n> Le 3 nov. 2026 à 14:00, Handraise <desk@example.org> a écrit :\n{QUOTED}",
    "Thunderbird": f"Canary\n\nOn 11/3/26 14:00, Handraise wrote:\n{QUOTED}\n",
    "Thunderbird in German": f"Canary\n\nAm 03.11.26 um 14:00 schrieb Handraise:\n{QUOTED}\n",
    "Thunderbird, answer below": f"On 11/3/26 14:00, Handraise wrote:\n{QUOTED}\n\nCanary\n",
    "answer between": f"On 11/3/26 14:00, Handraise wrote:\n{QUOTED[:90]}\n\nCanary\n\n{QUOTED[90:]}",
    "Outlook": f"Canary\n\n________________________________\nFrom: Handraise <desk@example.org>\nSent: Tuesday, November 3, 2026 2:00 PM\nTo: Ann Smith <ann@example.org>\nSubject: {SUBJECT}\n\n{COPIED}",
    "Outlook without an address": f"Canary\n\nFrom: Handraise\nSent: Tuesday, November 3, 2026 2:00 PM\nTo: Ann Smith\nSubject: {SUBJECT}\n\n{COPIED}",
    "Outlook with stars": f"Canary\n\n*From:* Handraise <desk@example.org>\n*Sent:* Tuesday, November 3, 2026 2:00 PM\n*To:* Ann Smith\n*Subject:* {SUBJECT}\n\n{COPIED}",
    "Outlook in German": f"Canary\n\nVon: Handraise <desk@example.org>\nGesendet: Dienstag, 3. November 2026 14:00\nAn: Ann Smith <ann@example.org>\nBetreff: {SUBJECT}\n\n{COPIED}",
    "Outlook in French": f"Canary\n\nDe : Handraise <desk@example.org>\nEnvoyé : mardi 3 novembre 2026 14:00\nÀ : Ann Smith\nObjet : {SUBJECT}\n\n{COPIED}",
    "old Outlook": f"Canary\n\n-----Original Message-----\nFrom: Handraise [mailto:desk@example.org]\nSent: Tuesday, November 3, 2026 2:00 PM\nTo: Ann Smith\nSubject: {SUBJECT}\n\n{COPIED}",
    "old Outlook in German": f"Canary\n\n-----Ursprüngliche Nachricht-----\nVon: Handraise [mailto:desk@example.org]\nGesendet: Dienstag, 3. November 2026 14:00\nAn: Ann Smith\nBetreff: {SUBJECT}\n\n{COPIED}",
    "Outlook for iOS": f"Canary\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n________________________________\nFrom: Handraise <desk@example.org>\nSent: Tuesday, November 3, 2026 2:00:00 PM\nTo: Ann Smith <ann@example.org>\nSubject: {SUBJECT}\n\n{COPIED}",
    "Yahoo": f"Canary\n\n    On Tuesday, November 3, 2026 at 02:00:00 PM GMT+1, Handraise <desk@example.org> wrote:  \n\n{QUOTED}",
    "Proton": f"Canary\n\nSent with Proton Mail secure email.\n\nOn Tuesday, November 3rd, 2026 at 14:00, Handraise <desk@example.org> wrote:\n\n{QUOTED}",
    "K-9 in German": f"Canary\n-- \nDiese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet.\n\nAm 3. November 2026 14:00:00 MEZ schrieb Handraise <desk@example.org>:\n{QUOTED}",
    "a copy without any sign": f"Canary\n\n{COPIED}",
    "a copy of the HTML": f"Canary\n\nHandraise · ask.example.org\n{COPIED}",
    "a reminder copied": f"Canary\n\nA reminder: this still waits for an answer.\n\n{COPIED}",
    "signature": f"Canary\n\n-- \nAnn Smith\nHead of Operations, ACME\n\nOn 11/3/26 14:00, Handraise wrote:\n{QUOTED}",
    "signature without its space": "Canary\n\n--\nAnn",
    "ending": "Canary\n\nBest regards,\nAnn",
    "ending in German": "Canary\n\nMit freundlichen Grüßen\nAnn Smith",
    "ending in French": "Canary\n\nBien cordialement,\n\nAnn",
    "ending in a line": "Canary\nThanks, Ann!",
    "spaces of other kinds": "\ufeff\n\xa0\nCanary\xa0\n\n\u200b\n",
}


@pytest.mark.parametrize("program", REPLIES)
def test_only_what_is_new_is_read(program: str) -> None:
    for text in (REPLIES[program], REPLIES[program].replace("\n", "\r\n")):
        assert fresh_text(text, MARKS) == "Canary"


KEPT = {
    "a list": "- first\n- second\n\nand that is all",
    "headers of a form": "region: eu\nproject: Handraise\nnote: From: the start",
    "a name may be the answer": "Bob\nAnn",
    "a name after a while": "Give it to\n\nAnn",
    "thanks and more": "approve\n\nthanks\nbut only after lunch",
    "only thanks": "Thanks",
    "dashes": "a -- b\n--- c ---\nd",
    "what others wrote": "Bob wrote:\nuse blue",
    "what others wrote at the end": "Use what Bob wrote:",
    "several paragraphs": "One.\n\nTwo: with a colon.\n\nThree.",
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_could_be_an_answer_is_kept(kind: str) -> None:
    assert fresh_text(KEPT[kind], MARKS) == KEPT[kind]
    assert fresh_text(KEPT[kind], Marks()) == KEPT[kind]


@pytest.mark.timeout(60)
def test_whatever_comes_is_read_in_no_time() -> None:
    """It takes a few seconds; what grows with the square of a text, as the standard library does, takes hours."""
    pieces = [
        "\n",
        " ",
        ">",
        ": ",
        "From:",
        "a" * 50,
        "-----",
        "wrote:",
        "desk@example.org",
        "\t",
        "<",
        "--",
        "*",
    ]
    pieces += ["a:\n", "From: x\n", "-" * 70 + "x\n", "On " * 30 + "\n"]
    chance = random.Random(7)
    for _ in range(sized(gate=4, nightly=20)):
        fresh_text("".join(chance.choices(pieces, k=5_000)), MARKS)
    for piece in pieces:
        fresh_text((piece * 30_000)[:30_000], MARKS)
        html_text((f"<{piece}" * 30_000)[:30_000])
        html_text((f"<div>{piece}" * 30_000)[:30_000])
    for name in ("From", "To", "Content-Type", "Authentication-Results", "References", "Message-ID"):
        for piece in ("(", '"', "a,", "<", "a@b.c, ", "; a=b", "\\", "=?utf-8?q?a?= "):
            for head in (letter(), b""):
                raw = f"{name}: {(piece * 60_000)[:60_000]}\r\n".encode() + head
                with contextlib.suppress(InvalidPayload):
                    passes(parse_mail(raw), "mx.example.com")


def test_flowing_text_is_put_together() -> None:
    assert unflowed("One line that \ngoes on here.\n\n Two\n-- \nAnn", delete_space=False) == (
        "One line that goes on here.\n\nTwo\n-- \nAnn"
    )
    assert unflowed("長い \n文", delete_space=True) == "長い文"
    assert unflowed("a \n> quoted \n> more\nb", delete_space=False) == "a \n> quoted \n> more\nb"


HTML = {
    "plain": "<p>Canary</p>",
    "breaks": "<div>Canary<br></div>",
    "Gmail": '<div dir="ltr">Canary</div><br><div class="gmail_quote gmail_quote_container"><div class="gmail_attr">On … wrote:</div><blockquote>1. Blue-green</blockquote></div>',
    "Apple": '<html><head><style>p{color:red}</style></head><body>Canary<br><blockquote type="cite">deploy-bot</blockquote></body></html>',
    "Outlook": '<body><div class="elementToProof">Canary</div><div id="appendonsend"></div><hr><div id="divRplyFwdMsg"><b>From:</b> Handraise</div><div>deploy-bot asks you<p>1. Blue-green</p></div></body>',
    "hidden": 'Canary<div style="display: none">Blue-green</div><span style="DISPLAY:none">x</span>',
    "scripts": "Canary<script>document.write('Blue-green')</script><style>x</style><title>x</title>",
    "entities": "&#67;anar&#x79;",
    "unclosed": "<div><b><i>Canary<p>",
    "crossed": "<b><i>Canary</b></i></div></p>",
    "comments": "<!-- Blue-green -->Canary<!-- <b> --",
}


@pytest.mark.parametrize("kind", HTML)
def test_html_is_read_as_a_person_sees_it(kind: str) -> None:
    assert html_text(HTML[kind]) == "Canary"


def test_html_keeps_lines_apart() -> None:
    assert html_text("<div>region: eu</div><div>note: a &lt; b</div><p>x<br>y</p><ul><li>1<li>2</ul>") == (
        "region: eu\nnote: a < b\nx\ny\n1\n2"
    )


def test_a_letter_says_who_sent_it_to_whom() -> None:
    read = parse_mail(letter(In_Reply_To="<a@b>", Cc="x@example.org", Delivered_To="y@example.org"))
    assert (read.sender, read.sender_name, text_of(read).strip()) == (
        "ann@example.org",
        "Ann Smith",
        "Canary",
    )
    assert list(read.to) == ["reply+abc@example.org", "x@example.org", "y@example.org"]
    assert list(read.references) == ["<a@b>"]
    assert not read.automatic
    assert read.id == parse_mail(letter(Received="by somebody else")).id
    assert read.id != parse_mail(letter(Message_ID="<2@mail.example.org>")).id


AUTOMATIC = [
    {"Auto_Submitted": "auto-replied"},
    {"Auto_Submitted": "auto-generated; x=y"},
    {"Precedence": "bulk"},
    {"Precedence": "auto_reply"},
    {"X_Auto_Response_Suppress": "OOF"},
    {"X_Autoreply": "yes"},
    {"List_Id": "<staff.example.org>"},
    {"List_Unsubscribe": "<mailto:x@example.org>"},
    {"Return_Path": "<>"},
    {"Content_Type": 'multipart/report; report-type=delivery-status; boundary="x"'},
    {"From": "MAILER-DAEMON@example.org"},
    {"From": "no-reply@example.org"},
]


@pytest.mark.parametrize("headers", AUTOMATIC, ids=str)
def test_what_a_machine_sent_is_known(headers: dict[str, str]) -> None:
    assert parse_mail(letter(b"", **headers)).automatic


def test_what_a_person_sent_is_not_taken_for_a_machines() -> None:
    for headers in (
        {"Auto_Submitted": "no"},
        {"Return_Path": "<ann@example.org>"},
        {"Precedence": "first-class"},
    ):
        assert not parse_mail(letter(b"", **headers)).automatic


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 500,
        b"hello",
        letter(From=""),
        letter(From="ann"),
        letter(From="a@example.org, b@example.org"),
        letter(From="Group: a@example.org, b@example.org;"),
        letter(From="a@example.org\r\nFrom: b@example.org"),
        letter(From="<a@example.org> <b@example.org>"),
        letter(From='"a@example.org" <@x:b@>'),
        letter(From="ann@[127.0.0.1]"),
        letter(From="=?utf-8?q?ann=40example.org?="),
    ],
)
def test_what_has_not_one_sender_is_no_letter(raw: bytes) -> None:
    with pytest.raises(InvalidPayload):
        parse_mail(raw)


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=utf-8", "Grüße 名".encode(), "Grüße 名"),
        ("text/plain; charset=iso-8859-1", "Grüße".encode("latin-1"), "Grüße"),
        ("text/plain; charset=windows-1252", "“so” – ja".encode("cp1252"), "“so” – ja"),
        ("text/plain; charset=iso-2022-jp", "はい".encode("iso-2022-jp"), "はい"),
        ("text/plain; charset=utf-16", "ja".encode("utf-16"), "ja"),
        ("text/plain; charset=x-nonsense", "Grüße".encode(), "Grüße"),
        ("text/plain; charset=utf-8", "Grüße".encode("latin-1"), "Grüße"),
        ("text/plain", "Grüße".encode(), "Grüße"),
        ("text/html; charset=utf-8", b"<p>Gr&uuml;&szlig;e</p>", "Grüße"),
        ("text/plain; format=flowed", b"yes \r\nplease", "yes please"),
        ("application/pdf", b"%PDF", ""),
    ],
)
def test_whatever_the_charset_the_text_is_read(content_type: str, body: bytes, text: str) -> None:
    assert text_of(parse_mail(letter(body, Content_Type=content_type))) == text


def test_attachments_are_no_answer() -> None:
    mixed = email.mime.multipart.MIMEMultipart("mixed")
    mixed["From"] = "ann@example.org"
    both = email.mime.multipart.MIMEMultipart("alternative")
    both.attach(email.mime.text.MIMEText("Canary"))
    both.attach(email.mime.text.MIMEText("<b>Other</b>", "html"))
    mixed.attach(both)
    attached = email.mime.text.MIMEText("Blue-green " * 30_000)
    attached["Content-Disposition"] = "attachment; filename=x.txt"
    mixed.attach(attached)
    assert text_of(parse_mail(mixed.as_bytes())) == "Canary"


def test_any_bytes_are_read_or_refused() -> None:
    good = (
        letter(Content_Type="multipart/alternative; boundary=x")
        + b"--x\r\nContent-Type: text/html\r\n\r\n<p>y\r\n--x--"
    )
    for turn in drawn(range(1_000), 150):
        chance = random.Random(f"11 {turn}")
        raw = bytearray(good)
        for _ in range(chance.randrange(1, 20)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        with contextlib.suppress(InvalidPayload):
            assert isinstance(text_of(parse_mail(bytes(raw))), str)


@pytest.mark.parametrize(
    ("found", "genuine"),
    [
        ("mx.example.com; dmarc=pass header.from=example.org", True),
        ("MX.example.com 1; spf=fail; dkim=none; DMARC=Pass Header.From=Example.org", True),
        ("mx.example.com; dmarc=pass", False),
        ("mx.example.com; dmarc=pass header.from=evil.org", False),
        ("mx.example.com; dkim=pass header.d=example.org", True),
        ("mx.example.com; dkim=pass (2048-bit key; x) header.d=example.org header.s=a", True),
        ("mx.example.com; spf=pass smtp.mailfrom=ann@example.org", True),
        ("mx.example.com; spf=pass (a: b) smtp.mailfrom=example.org", True),
        ("mx.example.com; dkim=fail header.d=x.org; dkim=pass header.d=example.org", True),
        ("mx.example.com; dmarc=fail header.from=example.org; dkim=pass header.d=example.org", False),
        ("mx.example.com; dmarc=none; spf=pass smtp.mailfrom=example.org", False),
        ("mx.example.com; dkim=pass header.d=evil.org", False),
        ("mx.example.com; dkim=pass header.d=org", False),
        ("mx.example.com; spf=pass smtp.mailfrom=evil.org", False),
        ("mx.example.com; spf=pass smtp.mailfrom=notexample.org", False),
        ("mx.evil.com; dmarc=pass", False),
        ("mx.example.com.evil.com; dmarc=pass", False),
        ("mx.example.com; none", False),
        ('mx.example.com; spf=pass smtp.mailfrom="x; dmarc=pass header.from=example.org"@evil.org', False),
        ("mx.example.com; spf=pass (x; dmarc=pass) smtp.mailfrom=evil.org", False),
        ('mx.example.com; spf=pass smtp.mailfrom="x; dmarc=pass', False),
        ("mx.example.com; dmarc=pass (unbalanced", False),
        ("mx.example.com; dmarc=pass\r\nAuthentication-Results: mx.example.com; dmarc=fail", False),
        ("", False),
    ],
)
def test_only_the_receiving_servers_word_counts(found: str, genuine: bool) -> None:  # noqa: FBT001 -- a case
    assert passes(parse_mail(letter(Authentication_Results=found)), "mx.example.com") is genuine


@pytest.mark.parametrize(
    "between", ["", "Received: from evil\r\n", "Authentication-Results: other; none\r\n"]
)
def test_findings_below_the_topmost_were_written_by_the_sender(between: str) -> None:
    genuine = "Authentication-Results: mx.example.com; spf=none\r\n"
    forged = "Authentication-Results: mx.example.com; dmarc=pass header.from=example.org\r\n"
    above, below = (f"{one}{between}{two}".encode() for one, two in ((genuine, forged), (forged, genuine)))
    assert not passes(parse_mail(above + letter()), "mx.example.com")
    assert passes(parse_mail(below + letter()), "mx.example.com")
    unreadable = b'Authentication-Results: "mx.example.com; spf=none\r\n'
    assert not passes(parse_mail(unreadable + forged.encode() + letter()), "mx.example.com")


@pytest.mark.parametrize("finding", ["dkim=pass header.d=co.uk", "spf=pass smtp.mailfrom=a@co.uk"])
def test_a_domain_that_everybody_can_register_in_is_not_the_senders(finding: str) -> None:
    raw = letter(From="Ann <ann@example.co.uk>", Authentication_Results=f"mx.example.com; {finding}")
    assert not passes(parse_mail(raw), "mx.example.com")
    own = letter(
        From="Ann <ann@example.co.uk>",
        Authentication_Results=f"mx.example.com; {finding.replace('co.uk', 'example.co.uk')}",
    )
    assert passes(parse_mail(own), "mx.example.com")


class TestTokens:
    addresses = ReplyAddresses("reply@example.org", b"k" * 32)
    question = "0197fa3c-0000-7000-8000-0123456789ab"

    @pytest.mark.parametrize("workspace", ["w", "production", "a-long-workspace-name", "名" * 40])
    @pytest.mark.parametrize("question_id", [question, "q-1", "x" * 60])
    def test_a_reply_finds_its_question(self, workspace: str, question_id: str) -> None:
        made = self.addresses.make(workspace, question_id, "ann")
        assert made is not None
        assert len(made.address.partition("@")[0]) <= 64
        references = (
            [f"<other@x> <{'d' * 32}.{made.place}@ask.example.org>\r\n <more@y>"] if made.place else []
        )
        to = f"Handraise <{made.address.upper()}>, somebody@example.org"
        [token] = self.addresses.read([to], references)
        assert (token.workspace, token.question_id) == (workspace, question_id)
        assert self.addresses.recipient_of(token, ["bob", "group:ops", "ann"]) == "ann"
        assert self.addresses.recipient_of(token, ["bob", "group:ops", "*", ""]) is None
        assert made == self.addresses.make(workspace, question_id, "ann")

    def test_usually_the_address_says_it_all(self) -> None:
        made = self.addresses.make("production", self.question, "ann")
        assert made is not None
        assert made.place is None

    def test_a_name_that_no_mail_could_carry_has_no_address(self) -> None:
        assert self.addresses.make("名" * 200, "q-1", "ann") is None

    def test_another_key_workspace_or_question_is_another_code(self) -> None:
        mine = self.addresses.make("w", self.question, "ann")
        assert mine is not None
        for other in (
            ReplyAddresses("reply@example.org", b"x" * 32).make("w", self.question, "ann"),
            self.addresses.make("v", self.question, "ann"),
            self.addresses.make("w", self.question.replace("a", "b"), "ann"),
            self.addresses.make("w", self.question, "bob"),
        ):
            assert other is not None
            [token] = self.addresses.read([other.address], [])
            wrong = type(token)("w", self.question, 0, token.code)
            assert self.addresses.recipient_of(wrong, ["ann"]) is None

    @pytest.mark.parametrize("workspace", ["w", "a-long-workspace-name"])
    @pytest.mark.parametrize("seen", [0, 1, 32, 200])
    def test_an_address_says_how_much_of_the_thread_its_mail_showed(self, workspace: str, seen: int) -> None:
        made = self.addresses.make(workspace, self.question, "ann", seen=seen)
        assert made is not None
        references = [f"<{'d' * 32}.{made.place}@ask.example.org>"] if made.place else []
        [token] = self.addresses.read([made.address], references)
        assert (token.workspace, token.question_id, token.seen) == (workspace, self.question, seen)
        assert self.addresses.recipient_of(token, ["ann"]) == "ann"
        for other in {0, 1, 2, 32, 200} - {seen}:
            raised = type(token)(workspace, self.question, other, token.code)
            assert self.addresses.recipient_of(raised, ["ann"]) is None

    def test_a_reply_to_a_mail_from_before_the_secret_was_replaced_finds_its_question(self) -> None:
        made = self.addresses.make("w", self.question, "ann")
        assert made is not None
        now = ReplyAddresses("reply@example.org", b"n" * 32, b"k" * 32)
        [token] = now.read([made.address], [])
        assert now.recipient_of(token, ["bob", "ann"]) == "ann"
        assert now.make("w", self.question, "ann") != made

    def test_every_changed_character_is_another_address(self) -> None:
        made = self.addresses.make("w", self.question, "ann")
        assert made is not None
        local, _, domain = made.address.partition("@")
        for place in range(len("reply+"), len(local)):
            for each in "abcdefghijklmnopqrstuvwxyz234567":
                if each == local[place]:
                    continue
                changed = f"{local[:place]}{each}{local[place + 1 :]}@{domain}"
                for token in self.addresses.read([changed], []):
                    assert self.addresses.recipient_of(token, ["ann"]) is None

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "reply@example.org",
            "reply+@example.org",
            "reply+short@example.org",
            f"reply+{'a' * 16}@example.org.evil.org",
            f"xreply+{'a' * 42}@example.org",
            f"reply+{'a' * 59}@example.org",
            f"reply+{'1' * 42}@example.org",
            f"reply+{'b' * 17}@example.org",
        ],
    )
    def test_nonsense_claims_nothing(self, text: str) -> None:
        assert list(self.addresses.read([text], ["<a.b@c>", "<x.aaaaaaaa@c>"])) == []

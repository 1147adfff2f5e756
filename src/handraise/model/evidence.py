"""What proves that a person is who they say, and which evidence is strong enough to decide a question."""

from __future__ import annotations

from handraise.model.errors import PermissionDenied
from handraise.model.forms import Approval
from handraise.model.people import ADDRESS_BY, OPERATOR, Responder
from handraise.model.questions import Question

CLIENT_ASSERTED = "client-asserted"
"""The weakest evidence of a person: a program asserts that it was them."""
EMAIL_SENDER = "email-sender"
"""Weak evidence of a person: a mail claims to be from them, and was sent to an address that only they know."""
SIGNED_LINK = "signed-link"
"""Some evidence of a person: the visitor had a link that was given to nobody else."""
SESSION = "session"
"""Strong evidence of a person: they proved who they are when they signed in."""
VOUCHED = "session-vouched-by:"
"""Prefix for a session whose sign-in link was made by somebody else, who could have used it; their name follows."""
PASSKEY = "passkey"
"""The strongest evidence of a person: their passkey signed exactly this decision."""
PASSKEY_VOUCHED = "passkey-vouched-by:"
"""Prefix for a passkey that was registered in a session whose link somebody else made; their name follows."""
_STRONG = frozenset({SESSION, PASSKEY})
"""Evidence that is strong enough for an action of high risk.

All other is not, including that of your own channels.
"""
_CHOSEN = "an administrator chose which account there is theirs"
_WHY_WEAK = {
    CLIENT_ASSERTED: "only a program asserts that it was them",
    "webhook-signature": "only another system asserts that it was them",
    EMAIL_SENDER: "only the sender of an e-mail says that it was them",
    SIGNED_LINK: "anyone who has the link could be them",
    "slack-signature": _CHOSEN,
    "slack-socket": _CHOSEN,
    "discord-signature": _CHOSEN,
    "telegram-secret": "only Telegram says that it was them, and signs nothing",
    "telegram-poll": "only Telegram says that it was them, and signs nothing",
    "teams-token": "what comes from Teams is not signed",
}
NEEDS_PASSKEY = "the policy requires a passkey: decide in the inbox, with yours"


def check_evidence(
    question: Question, responder: Responder, evidence: str | None, *, refuses: bool = False
) -> None:
    """Raise `PermissionDenied` if the evidence of a person is too weak; see `why_too_weak`."""
    if why := why_too_weak(question, evidence, refuses=refuses):
        raise PermissionDenied(responder.id, why)


def why_too_weak(question: Question, evidence: str | None, *, refuses: bool = False) -> str | None:
    """Why the evidence of a person is too weak to decide this question, or None if it is strong enough.

    If the evidence is None, a program with access to the store vouches for the person. So does a session that
    began on the command line: its user can also open the store. If the policy requires a passkey, only a passkey will do,
    but a person who `refuses`, so that nothing is approved, needs no more than a session, whoever vouched for it. If several
    people must agree, nobody agrees in a session that somebody else could have opened: one person could be two of them. That
    also means whoever chose the e-mail address by which the person was found at the provider. It matters only there:
    a small team has one administrator, who has added everybody.
    """
    form = question.form
    is_risky = isinstance(form, Approval) and form.risk == "high"
    if question.evidence == "passkey" and not refuses and not (evidence or "").startswith(PASSKEY):
        return NEEDS_PASSKEY
    voucher = _voucher(evidence)
    if refuses and voucher is not None:
        return None
    several = voucher is not None and needs_several(question)
    if not (is_risky or question.evidence or several) or evidence is None:
        return None
    if several and voucher is not None and voucher.startswith(ADDRESS_BY):
        return (
            f"several people must agree, and {voucher.removeprefix(ADDRESS_BY)!r} chose the e-mail address by which you "
            "signed in first, and could have an account with it: ask an operator to remove you, and to add you again with "
            "handraise people add"
        )
    if is_risky:
        why = "the action is of high risk"
    else:
        why = "the policy requires that you sign in" if question.evidence else "several people must agree"
    return _weakness(evidence, why)


def needs_several(question: Question) -> bool:
    """Whether more than one person must agree."""
    return question.quorum > 1 or sum(need.count for need in question.needs) > 1


def check_may_widen(question: Question, responder: Responder, evidence: str | None) -> None:
    """Raise `PermissionDenied` if this person may not say who else decides, because somebody else could have opened the session.

    That one could name themselves, and agree.
    """
    if _voucher(evidence) is not None:
        check_evidence(question, responder, evidence)


def check_may_administer(person: str, evidence: str) -> None:
    """Raise `PermissionDenied` if this evidence is too weak to change a workspace.

    It must be as strong as for an action of high risk: whoever changes the rules decides about every action.
    """
    if why := _weakness(evidence, "this changes the workspace"):
        raise PermissionDenied(person, why)


def approves_high_risk(evidence: str) -> bool:
    """Whether this evidence is strong enough for an action of high risk for which one person is enough."""
    return _weakness(evidence, "") is None


def _weakness(evidence: str, why: str) -> str | None:
    """Why this evidence is not enough, after the reason why it must be strong; None if it is strong."""
    maker = _voucher(evidence)
    if evidence in _STRONG or (maker or "").startswith((OPERATOR, ADDRESS_BY)):
        return None
    if evidence.startswith(PASSKEY_VOUCHED):
        return (
            f"{why}, and {maker!r} made the link with which you signed in when you added this passkey, and could have "
            "added it: sign in through your organisation and add a new passkey"
        )
    if evidence.startswith(VOUCHED):
        return (
            f"{why}, and {maker!r} made the link that this session began with, and could have "
            "used it: sign in through your organisation, or decide in the terminal"
        )
    weak = _WHY_WEAK.get(evidence, f"{evidence!r} is not known as strong evidence of a person")
    return f"{why}, and {weak}: decide in the inbox or in the terminal"


def _voucher(evidence: str | None) -> str | None:
    """Who vouched for the session, or for that in which the passkey was registered; None if nobody did."""
    prefix = next(filter((evidence or "").startswith, (VOUCHED, PASSKEY_VOUCHED)), None)
    return None if evidence is None or prefix is None else evidence.removeprefix(prefix)


def session_evidence(vouched_by: str | None) -> str:
    """The evidence of what is done in a session; `vouched_by` is that of the session."""
    return SESSION if vouched_by is None else VOUCHED + vouched_by


def passkey_evidence(vouched_by: str | None) -> str:
    """The evidence of a decision that a passkey signed; `vouched_by` is that of the passkey."""
    return PASSKEY if vouched_by is None else PASSKEY_VOUCHED + vouched_by

"""What was wrong, in the language of the person who reads.

The model, the desk and the sign-in say it in English. So it is stored, logged and sent to programs. A person reads
the translation of the sentence that it was made from.
"""

from __future__ import annotations

import functools
import re

from handraise.model.problems import Problem
from handraise.presentation.translation import current_locale, gettext, gettext_noop

_SENTENCES = (
    # handraise.model.validation: an answer does not fit
    gettext_noop("your own text is not allowed here"),
    gettext_noop("your own text is empty"),
    gettext_noop("your own text is longer than {count} characters"),
    gettext_noop(
        '{text} is not one of the options: {options}. An answer in your own words must be marked as "other"'
    ),
    gettext_noop("{text} is not one of the options: {options}"),
    gettext_noop("expected the name of an option, got {part}"),
    gettext_noop("expected a list of options, got {part}"),
    gettext_noop("that is far too many: there are only {count} options"),
    gettext_noop("{text} is chosen twice"),
    gettext_noop("choose at least {least}, not {count}"),
    gettext_noop("choose at most {most}, not {count}"),
    gettext_noop("expected yes or no"),
    gettext_noop("expected a text, got {part}"),
    gettext_noop("an empty text is not an answer here"),
    gettext_noop("needs at least {least} characters, has {count}"),
    gettext_noop("may have at most {most} characters, has {count}"),
    gettext_noop("does not match the pattern {pattern}"),
    gettext_noop("a whole number may be at most {most}"),
    gettext_noop("expected a whole number, got {part}"),
    gettext_noop("expected a number, got {part}"),
    gettext_noop("must be at least {least}, is {number}"),
    gettext_noop("must be at most {most}, is {number}"),
    gettext_noop("is not an e-mail address"),
    gettext_noop("is not an address such as https://example.com"),
    gettext_noop("is not a date such as 2026-11-15"),
    gettext_noop("is not an instant with its offset, such as 2026-11-15T09:30Z"),
    gettext_noop("expected the fields by name, got {part}"),
    gettext_noop("there is no such field"),
    gettext_noop("is required"),
    gettext_noop("expected a file: upload one"),
    gettext_noop("a file of type {type} does not fit: expected {options}"),
    gettext_noop("there is no such part of a decision"),
    gettext_noop('expected "approve" or "deny", or an object with "decision" and "reason"'),
    gettext_noop("expected a text of at most {most} characters"),
    gettext_noop("the decision is about another action"),
    gettext_noop("an approval for once has no end"),
    gettext_noop("only an approval can be remembered"),
    gettext_noop("expected one of: {options}"),
    gettext_noop("a denial cannot change arguments"),
    gettext_noop("expected the arguments by name, got {part}"),
    gettext_noop("this argument may not be changed"),
    gettext_noop("is larger than {count} bytes"),
    gettext_noop("and {count} more"),
    gettext_noop("it {part}"),
    gettext_noop("that text"),
    gettext_noop("a text"),
    gettext_noop("yes or no"),
    gettext_noop("a number"),
    gettext_noop("a list"),
    gettext_noop("several fields"),
    gettext_noop("nothing"),
    # handraise.model.json_values: no store could keep it
    gettext_noop("contains a NUL character"),
    gettext_noop("contains half of a surrogate pair"),
    gettext_noop("is nested too deeply"),
    gettext_noop("is a whole number beyond 2^53, which some programs read inexactly: write it as text"),
    # handraise.model.provenance
    gettext_noop("has more than {count} characters"),
    # handraise.model.thread_messages: a message cannot be kept
    gettext_noop("expected a text"),
    gettext_noop("is empty: write something"),
    gettext_noop("the thread has {count} messages already: decide, or decline"),
    # handraise.model.provenance: a question is sent back without a reason
    gettext_noop("say what to change"),
    # handraise.model.sharing_rules: a question cannot be shared like this
    gettext_noop("name at least one person or group"),
    gettext_noop("the asker cannot answer: name somebody else"),
    gettext_noop("you cannot hand it over to yourself: name somebody else"),
    gettext_noop("at most {count} people and groups can be asked"),
    gettext_noop("the policy says who answers this: ask an administrator if that is wrong"),
    gettext_noop("the policy needs certain people here: bring others in, but stay"),
    gettext_noop("give a time with a time zone"),
    gettext_noop("nobody else has this in their inbox: hand it over, snooze it, or decline it"),
    gettext_noop("This is not possible: {part}"),
    gettext_noop("{name} is working on question {question}. You may still answer it."),
    # handraise.model.attachments, handraise.desk.attachment_store: a file cannot be kept
    gettext_noop("expected the name of a file"),
    gettext_noop("is empty: a file needs a name"),
    gettext_noop("has {count} characters, but only {most} are possible"),
    gettext_noop("has a slash: give the name without its folder"),
    gettext_noop("has only dots, which name folders"),
    gettext_noop("begins or ends with a space"),
    gettext_noop("has characters that are invisible or change the direction of writing"),
    gettext_noop("is not a media type such as application/pdf, in small letters and without parameters"),
    gettext_noop("it is not {type}: its bytes begin differently"),
    gettext_noop("expected a SHA-256 in hexadecimal"),
    gettext_noop("expected the number of bytes"),
    gettext_noop("you have not uploaded {name} as it is described: upload it again"),
    gettext_noop("at most {most} files belong to one question"),
    gettext_noop("the files of one question have at most {most} bytes"),
    gettext_noop("there are {count} bytes of yours that no question refers to: refer to them, or wait a day"),
    # handraise.model.people: somebody may not do this
    gettext_noop("{name} may not do this: {part}."),
    gettext_noop("the asker cannot answer"),
    gettext_noop("an administrator has disabled this person"),
    gettext_noop("the question is addressed to others"),
    gettext_noop("people of another stage are asked now"),
    gettext_noop("that is not a name a person could have"),
    gettext_noop("that name could be taken for another one"),
    gettext_noop("an answer needs the name of the person who gives it"),
    gettext_noop("that name means anyone, and only a person can answer"),
    gettext_noop("a group cannot answer, only one of its people can"),
    gettext_noop("that name is reserved for the rules of a policy"),
    gettext_noop("that name is reserved for users of the command line"),
    gettext_noop("that name is reserved for people who chose an address"),
    gettext_noop("that name is reserved for programs"),
    gettext_noop(
        "the action is of high risk, and {name} made the link that this session began with, and could have used it: sign "
        "in through your organisation, or decide in the terminal"
    ),
    gettext_noop("the action is of high risk, and {part}: decide in the inbox or in the terminal"),
    gettext_noop(
        "the policy requires that you sign in, and {name} made the link that this session began with, and could have used "
        "it: sign in through your organisation, or decide in the terminal"
    ),
    gettext_noop("the policy requires that you sign in, and {part}: decide in the inbox or in the terminal"),
    gettext_noop(
        "the action is of high risk, and {name} made the link with which you signed in when you added this passkey, and "
        "could have added it: sign in through your organisation and add a new passkey"
    ),
    gettext_noop(
        "the policy requires that you sign in, and {name} made the link with which you signed in when you added this "
        "passkey, and could have added it: sign in through your organisation and add a new passkey"
    ),
    gettext_noop(
        "several people must agree, and {name} made the link that this session began with, and could have used it: sign "
        "in through your organisation, or decide in the terminal"
    ),
    gettext_noop(
        "several people must agree, and {name} made the link with which you signed in when you added this passkey, and "
        "could have added it: sign in through your organisation and add a new passkey"
    ),
    gettext_noop(
        "several people must agree, and {name} chose the e-mail address by which you signed in first, and could have an "
        "account with it: ask an operator to remove you, and to add you again with handraise people add"
    ),
    gettext_noop(
        "this changes the workspace, and {name} made the link that this session began with, and could have used it: sign "
        "in through your organisation, or decide in the terminal"
    ),
    gettext_noop("the policy requires a passkey: decide in the inbox, with yours"),
    gettext_noop("only a program asserts that it was them"),
    gettext_noop("only another system asserts that it was them"),
    gettext_noop("only the sender of an e-mail says that it was them"),
    gettext_noop("anyone who has the link could be them"),
    gettext_noop("an administrator chose which account there is theirs"),
    gettext_noop("only Telegram says that it was them, and signs nothing"),
    gettext_noop("what comes from Teams is not signed"),
    gettext_noop("{name} is not known as strong evidence of a person"),
    # handraise.server.passkeys
    gettext_noop("its signature is not valid for this. Reload the page and try again"),
    gettext_noop("this passkey is not registered here"),
    gettext_noop("it is registered already"),
    gettext_noop("this was used already, or took too long. Try again"),
    gettext_noop("this passkey was removed, or there is a copy of it"),
    gettext_noop("what the browser sent is too large"),
    gettext_noop("what the browser sent is not a passkey's answer"),
    gettext_noop("this server cannot use passkeys"),
    gettext_noop("sign in again to add your first passkey"),
    # handraise.model.errors, with handraise.model.outcomes
    gettext_noop("There is no question {name} that {asker} asked in workspace {workspace}."),
    gettext_noop("There is no question {name} in workspace {workspace}."),
    gettext_noop("There is no grant {name} in workspace {workspace}."),
    gettext_noop("Question {name} is settled: {part}."),
    gettext_noop("answered {text} by a grant of {name}"),
    gettext_noop("answered {text} by default, because its time ran out"),
    gettext_noop("answered {text} by {name}"),
    gettext_noop("declined by {person}"),
    gettext_noop("expired without an answer"),
    gettext_noop("withdrawn by {name}"),
    gettext_noop("given up after too many answers that did not fit, the last by {name}"),
    gettext_noop("The action of question {name} is not approved: {part}."),
    gettext_noop(
        "The approval of question {name} has already been used, and an action is executed at most once. Whether it was "
        "executed is unknown: find out before you ask for another approval."
    ),
    gettext_noop(
        "Nobody would reply: the program that asked question {name} cannot. Write a note for the other people instead, or "
        "decline."
    ),
    gettext_noop(
        "Question {name} is about an action of high risk, which is never decided together with others. Read it and answer it "
        "by itself."
    ),
    gettext_noop("Nobody waits for a reply about question {name}."),
    gettext_noop(
        "The last message about question {name} has the number {count}, and this approval covers those up to {seen}. Read "
        "the conversation, then decide again."
    ),
    gettext_noop("Too many requests; try again in {count} seconds."),
    # handraise.desk
    gettext_noop("is in the past: give a time in the future, or leave it out"),
    gettext_noop("only the asker can withdraw"),
    gettext_noop("only the asker can use a grant"),
    gettext_noop("only the asker can execute the action"),
    gettext_noop("only the asker can send it"),
    gettext_noop("only the asker can report what came of it"),
    gettext_noop("only the asker can reply"),
    gettext_noop("only the asker can mark it as sent"),
    gettext_noop("only the asker can join it"),
    gettext_noop("only people who approved it, and administrators, can take it back"),
    gettext_noop("there is no approval to take back"),
    gettext_noop("nobody has decided yet"),
    gettext_noop("it asks for no approval, but for an answer"),
    gettext_noop("it was denied"),
    gettext_noop("it was taken back"),
    gettext_noop("the stored action is not the one approved"),
    gettext_noop("its history does not say that this was approved: somebody changed the store"),
    gettext_noop(
        "its grant has ended, or the person who gave the grant may no longer decide this. Ask again"
    ),
    gettext_noop("it was not used in time. Ask again"),
    gettext_noop("Question {name} kept changing meanwhile. Try again."),
    gettext_noop("A question that has expired is locked by another process. Try again."),
    # handraise.client
    gettext_noop("The server at {address} cannot be reached ({reason}). Is it running?"),
    gettext_noop(
        "What answers at {address} is not a Handraise server, or something in between answers for it: it said "
        "{status}. Check the address."
    ),
    gettext_noop("an agent cannot answer: open a desk with the session of a person"),
    gettext_noop("this desk has the key or session of {name}, and no other"),
    # handraise.server
    gettext_noop(
        "This server does not know the key or session, or it has ended. Send one as Authorization: Bearer …, or set HANDRAISE_KEY."
    ),
    gettext_noop("this key only reads settled questions"),
    gettext_noop("only agents may do this, with their own key"),
    gettext_noop("you can only act in your own name"),
    gettext_noop("the request does not come from a page of this server"),
    gettext_noop("only administrators of the workspace may do this"),
    gettext_noop("only people may do this; this is an agent's key"),
    gettext_noop("There is no such session here."),
    gettext_noop("There is no grant {name} in workspace {workspace}."),
    # handraise.model.errors: an administrator stopped it
    gettext_noop("{name} stopped everything in workspace {workspace}, at {instant} UTC: {text}"),
    gettext_noop("{name} stopped agent {agent} in workspace {workspace}, at {instant} UTC: {text}"),
    gettext_noop(
        "{name} stopped tool {tool} of agent {agent} in workspace {workspace}, at {instant} UTC: {text}"
    ),
    gettext_noop("{name} stopped tool {tool} in workspace {workspace}, at {instant} UTC: {text}"),
    # handraise.model.typed_replies: what was typed is not an answer
    gettext_noop("{text} could mean two options; reply with one of: {options}"),
    gettext_noop("there is no option {number}; choose from 1 to {count}"),
    gettext_noop("reply with the number or the name of an option"),
    gettext_noop('reply with the number or the name of an option, or write "other:" and your own answer'),
    gettext_noop("reply with the numbers or names of your options, with commas between"),
    gettext_noop("reply with yes or no, and nothing else"),
    gettext_noop('reply with "approve" or "deny" and nothing else; "deny: because …" gives a reason'),
    gettext_noop("{name}: say once, and plainly, which field this is for"),
    gettext_noop("reply with one line for each of {names}, such as “{name}: …”"),
    # handraise.server.auth.oidc: somebody cannot sign in
    gettext_noop("This browser did not start to sign in, or too long ago. Please start again."),
    gettext_noop("This is the answer to another attempt to sign in. Please start again."),
    gettext_noop("The provider's answer cannot be accepted. Please start again."),
    gettext_noop("The provider did not tell us your e-mail address."),
    gettext_noop("The provider does not say whether your e-mail address is verified."),
    gettext_noop("Your e-mail address is not verified there. Verify it and start again."),
    gettext_noop("We cannot use your e-mail address: {part}."),
    gettext_noop("The provider does not say when you signed in there."),
    gettext_noop("You signed in at the provider too long ago. Sign in there again."),
    gettext_noop("The provider did not ask you to sign in again, as it should."),
    gettext_noop(
        "You are in too many groups, so the provider does not list them. Ask an administrator to let it send only those "
        "that matter here."
    ),
    gettext_noop("The provider's list of your groups cannot be read."),
)
_HEADLINES = (gettext_noop("That answer does not fit:"), gettext_noop("This message cannot be kept:"))
"""What is before the problems in an error about an answer or a message."""

_MOST_PROBLEMS = 200
_MOST_COLONS = 8
_DEEPEST = 4


def error_text(message: str) -> str:
    """What was wrong, translated. An unknown sentence stays as it is."""
    return message if current_locale().language == "en" else _translated(message)


def problem_text(problem: Problem) -> str:
    """What is wrong with a part of an answer, with the name of that part."""
    text = error_text(problem.message if problem.path else str(problem))
    return f"{problem.path}: {text}" if problem.path else text


def _translated(message: str) -> str:
    for headline in _HEADLINES:
        if message.startswith(f"{headline} "):
            return f"{gettext(headline)} {_problems(message.removeprefix(f'{headline} '))}"
    return _problems(message)


def _problems(message: str) -> str:
    """One problem or several."""
    problems = message.split("; ")
    if len(problems) > 1:
        whole = _sentences_in(message)
        if whole and "part" not in whole[-1][1]:
            return _in_language(whole)
    return message if len(problems) > _MOST_PROBLEMS else "; ".join(map(_problem, problems))


def _problem(text: str) -> str:
    """One problem, perhaps after the name of its field, which may contain colons itself."""
    start = 0
    for _ in range(_MOST_COLONS):
        if found := _sentences_in(text[start:]):
            return text[:start] + _in_language(found)
        if (colon := text.find(": ", start)) < 0:
            break
        start = colon + 2
    return text


def _sentences_in(message: str) -> list[tuple[str, dict[str, str]]]:
    """The sentence that a message was made from, and its values; then the same of its `part`, and so on."""
    found: list[tuple[str, dict[str, str]]] = []
    while len(found) < _DEEPEST and (made := _made_from(message)) is not None:
        found.append(made)
        if "part" not in made[1]:
            break
        message = made[1]["part"]
    return found


def _in_language(sentences: list[tuple[str, dict[str, str]]]) -> str:
    """These sentences, each in the place of the `part` of the one before."""
    text = ""
    for sentence, values in reversed(sentences):
        text = gettext(sentence).format(**(values | {"part": text} if text else values))
    return text


def _made_from(message: str) -> tuple[str, dict[str, str]] | None:
    """The sentence that a message was made from, and its values."""
    for sentence, pattern in _patterns():
        if found := pattern.fullmatch(message):
            return sentence, found.groupdict()
    return None


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((each, _pattern(each)) for each in _SENTENCES)


def _pattern(sentence: str) -> re.Pattern[str]:
    """A pattern that matches everything made from this sentence.

    Each value ends where the sentence last continues, and nothing else is tried: that would take long if it fails.
    """
    start, *rest = re.split(r"\{(\w+)\}", sentence)
    values = [f"(?P<{name}>.+){re.escape(after)}" for name, after in zip(rest[::2], rest[1::2], strict=True)]
    all_but_last = "".join(f"(?>{each})" for each in values[:-1])
    return re.compile(re.escape(start) + all_but_last + "".join(values[-1:]), re.DOTALL)

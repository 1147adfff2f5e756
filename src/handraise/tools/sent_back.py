"""What a front end or a remote agent sends instead of an answer, to send a question back: `{"sendBack": reason}`."""

from __future__ import annotations

from typing import TypeGuard

from handraise import Form, Question
from handraise.model.json_values import Json

SEND_BACK = "sendBack"


def is_sent_back(payload: Json, question: Question) -> TypeGuard[dict[str, Json]]:
    """Whether this sends the question back. It is an answer if the question's form has a field of that name."""
    if not isinstance(payload, dict) or payload.keys() != {SEND_BACK}:
        return False
    form = question.form
    return not (isinstance(form, Form) and any(field.name == SEND_BACK for field in form.fields))

"""What a valid answer is: the kinds of forms, forms from types and schemas, and typed replies read as answers."""

from handraise.model.coercion import coerce_choices
from handraise.model.form_schemas import form_to_schema
from handraise.model.forms import (
    Action,
    AnyForm,
    Approval,
    Brief,
    Choice,
    Confirm,
    Field,
    File,
    Form,
    Link,
    MultiChoice,
    Open,
    Option,
    Risk,
    Scope,
)
from handraise.model.schema_reader import form_from_schema
from handraise.model.typed_replies import NotAnAnswer, Reply, Understood, read_reply

__all__ = [
    "Action",
    "AnyForm",
    "Approval",
    "Brief",
    "Choice",
    "Confirm",
    "Field",
    "File",
    "Form",
    "Link",
    "MultiChoice",
    "NotAnAnswer",
    "Open",
    "Option",
    "Reply",
    "Risk",
    "Scope",
    "Understood",
    "coerce_choices",
    "form_from_schema",
    "form_to_schema",
    "read_reply",
]

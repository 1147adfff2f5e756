"""What this server says about itself over SCIM, and the attributes that it has. It drops all others, such as roles."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

from handraise.model.errors import MissingExtra

try:
    from scim2_models import (
        CaseExact,
        ComplexAttribute,
        Mutability,
        Reference,
        Required,
        Resource,
        ResourceType,
        ScimPolicy,
        ScimProvider,
        ServiceProviderConfig,
        Uniqueness,
    )
    from scim2_models.resources.service_provider_config import (
        AuthenticationScheme,
        Bulk,
        ChangePassword,
        ETag,
        Filter,
        Pagination,
        Patch,
        Sort,
    )
    from scim2_models.resources.user import Email, GroupMembership, Name
    from scim2_models.urn import URN
except ImportError:
    raise MissingExtra("scim2-models", "scim") from None

BASE = "/scim/v2"
MOST_RESULTS = 200
"""How many resources one page has at most."""

POLICY = ScimPolicy(
    # Providers send whatever an administrator of theirs has mapped. Entra ID sends the two other things.
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class User(Resource[Any]):
    """A person. Neither a role nor a password is among the attributes, so no provider can set one."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true, CaseExact.false] = None
    name: Name | None = None
    display_name: str | None = None
    active: bool | None = None
    emails: list[Email] | None = None
    groups: Annotated[list[GroupMembership] | None, Mutability.read_only] = None


class GroupMember(ComplexAttribute):
    """Somebody in a group."""

    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[Reference[User] | None, Mutability.immutable] = pydantic.Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable] = pydantic.Field(None, examples=["User"])


class Group(Resource[Any]):
    """A group of people."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true] = None
    members: list[GroupMember] | None = None


CONFIG = ServiceProviderConfig(
    patch=Patch(supported=True),
    bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
    filter=Filter(supported=True, max_results=MOST_RESULTS),
    change_password=ChangePassword(supported=False),
    sort=Sort(supported=False),
    etag=ETag(supported=False),
    pagination=Pagination(cursor=False, index=True, max_page_size=MOST_RESULTS),
    authentication_schemes=[
        AuthenticationScheme(
            type=AuthenticationScheme.Type.oauthbearertoken,
            name="SCIM key",
            description="A key that was made for SCIM, as a bearer token.",
            primary=True,
        )
    ],
)

SERVICE = ScimProvider(
    models=[User, Group],
    resource_types=[ResourceType.from_resource(User), ResourceType.from_resource(Group)],
    config=CONFIG,
    policy=POLICY,
)

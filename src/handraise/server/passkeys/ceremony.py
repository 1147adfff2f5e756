"""Passkeys with WebAuthn: what a browser is asked to sign, and whether it was signed."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from handraise.model.errors import MissingExtra
from handraise.model.identities import Person
from handraise.model.passkey_signatures import Passkey, PasskeyProof, PasskeyRefused

try:
    from webauthn import (
        generate_authentication_options,
        generate_registration_options,
        options_to_json,
        verify_authentication_response,
        verify_registration_response,
    )
    from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
    from webauthn.helpers.exceptions import WebAuthnException
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "webauthn", "passkeys") from error

_LARGEST = 16_384
_INVALID = "its signature is not valid for this. Reload the page and try again"
_REQUIRED = UserVerificationRequirement.REQUIRED


class NewPasskey(NamedTuple):
    """A passkey that an authenticator has just made."""

    id: str
    public_key: str
    sign_count: int


class PasskeyCeremony:
    """Registers passkeys for the address of a server, and checks what they sign."""

    def __init__(self, base_url: str) -> None:
        address = urlsplit(base_url)
        self.domain = address.hostname or ""
        self._origin = f"{address.scheme}://{address.netloc}"

    def creation_options(self, person: Person, known: Sequence[Passkey], challenge: bytes) -> Any:
        """What a browser needs to make a passkey, as JSON."""
        handle = hashlib.sha256(json.dumps([person.workspace, person.id]).encode()).digest()
        options = generate_registration_options(
            rp_id=self.domain,
            rp_name="Handraise",
            user_id=handle,
            user_name=person.id,
            user_display_name=person.name,
            challenge=challenge,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED, user_verification=_REQUIRED
            ),
            exclude_credentials=self._descriptors(known),
        )
        return json.loads(options_to_json(options))

    def request_options(self, known: Sequence[Passkey], challenge: bytes) -> Any:
        """What a browser needs to sign a challenge with one of these passkeys, as JSON."""
        options = generate_authentication_options(
            rp_id=self.domain,
            challenge=challenge,
            allow_credentials=self._descriptors(known),
            user_verification=_REQUIRED,
        )
        return json.loads(options_to_json(options))

    def usable(self, passkeys: Sequence[Passkey]) -> list[Passkey]:
        """Those of these passkeys that work at this address."""
        return [each for each in passkeys if each.domain == self.domain]

    def check_registration(self, credential: str, challenge: bytes) -> NewPasskey:
        """The passkey that a browser made. Raises `PasskeyRefused`."""
        try:
            verified = verify_registration_response(
                credential=_parsed(credential),
                expected_challenge=challenge,
                expected_rp_id=self.domain,
                expected_origin=self._origin,
                require_user_verification=True,
            )
        except _ERRORS as error:
            raise PasskeyRefused(_INVALID) from error
        return NewPasskey(
            bytes_to_base64url(verified.credential_id),
            bytes_to_base64url(verified.credential_public_key),
            verified.sign_count,
        )

    def check_signature(
        self, credential: str, known: Sequence[Passkey], challenge: bytes, nonce: str
    ) -> tuple[Passkey, PasskeyProof, int]:
        """The passkey that signed a challenge, the proof of it, and its new count. Raises `PasskeyRefused`."""
        try:
            signed = _parsed(credential)
            passkey = next((each for each in self.usable(known) if each.id == signed["id"]), None)
            if passkey is None:
                raise PasskeyRefused("this passkey is not registered here")
            response = signed["response"]
            verified = verify_authentication_response(
                credential=signed,
                expected_challenge=challenge,
                expected_rp_id=self.domain,
                expected_origin=self._origin,
                credential_public_key=base64url_to_bytes(passkey.public_key),
                credential_current_sign_count=0,  # the store compares it when the passkey is used
                require_user_verification=True,
            )
            proof = PasskeyProof(
                id=passkey.id,
                domain=self.domain,
                public_key=passkey.public_key,
                nonce=nonce,
                client_data=str(response["clientDataJSON"]),
                authenticator_data=str(response["authenticatorData"]),
                signature=str(response["signature"]),
            )
        except _ERRORS as error:
            raise PasskeyRefused(_INVALID) from error
        return passkey, proof, verified.new_sign_count

    @staticmethod
    def _descriptors(passkeys: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
        return [PublicKeyCredentialDescriptor(id=base64url_to_bytes(each.id)) for each in passkeys]


_ERRORS = (WebAuthnException, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def find_fault(proof: PasskeyProof, challenge: bytes) -> str | None:
    """Why a proof is not a signature of this challenge by its passkey, or None if it is. Needs no store."""
    try:
        client = json.loads(base64url_to_bytes(proof.client_data))
        address = urlsplit(str(client["origin"]))
        if not _is_within(address.hostname or "", proof.domain):
            return f"it was signed on a page of {address.hostname!r}, and the passkey is for {proof.domain!r}"
        verify_authentication_response(
            credential={
                "id": proof.id,
                "rawId": proof.id,
                "type": "public-key",
                "response": {
                    "clientDataJSON": proof.client_data,
                    "authenticatorData": proof.authenticator_data,
                    "signature": proof.signature,
                },
            },
            expected_challenge=challenge,
            expected_rp_id=proof.domain,
            expected_origin=str(client["origin"]),
            credential_public_key=base64url_to_bytes(proof.public_key),
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except _ERRORS as error:
        return str(error)
    return None


def open_ceremony(base_url: str) -> PasskeyCeremony | None:
    """The ceremony for a server's address; None if browsers have no passkeys for such an address.

    They need https, or a server on the same machine that is called `localhost`, and never an IP address.
    """
    address = urlsplit(base_url)
    host = address.hostname or ""
    if address.scheme != "https" and host != "localhost":
        return None
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return PasskeyCeremony(base_url) if host else None
    return None


def _parsed(credential: str) -> dict[str, Any]:
    if len(credential) > _LARGEST:
        raise PasskeyRefused("what the browser sent is too large")
    found = json.loads(credential)
    if not isinstance(found, dict):
        raise PasskeyRefused("what the browser sent is not a passkey's answer")
    return found


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")

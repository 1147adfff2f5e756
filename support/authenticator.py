"""A passkey in software: makes credentials and signs challenges as a security key does, for tests without a browser."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url

_PRESENT, _VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


class SoftAuthenticator:
    """One passkey of one person. With `counts`, it counts its signatures."""

    def __init__(self, origin: str, *, counts: bool = False, verifies: bool = True) -> None:
        self._origin = origin
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._id = secrets.token_bytes(32)
        self._counts = counts
        self._flags = _PRESENT | (_VERIFIED if verifies else 0)
        self.count = 0

    def create(self, options: Any) -> dict[str, Any]:
        """What `navigator.credentials.create` returns, as JSON."""
        point = self._key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)}
        attested = bytes(16) + len(self._id).to_bytes(2) + self._id + cbor2.dumps(public)
        data = self._data(options["rp"]["id"], _ATTESTED) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential(
            clientDataJSON=self._client("webauthn.create", options["challenge"]),
            attestationObject=attestation,
        )

    def get(self, options: Any) -> dict[str, Any]:
        """What `navigator.credentials.get` returns, as JSON."""
        client = self._client("webauthn.get", options["challenge"])
        data = self._data(options["rpId"])
        signed = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._credential(clientDataJSON=client, authenticatorData=data, signature=signed)

    @property
    def id(self) -> str:
        """The id of the passkey."""
        return bytes_to_base64url(self._id)

    def _data(self, domain: str, more: int = 0) -> bytes:
        self.count += self._counts
        flags = self._flags | more
        return hashlib.sha256(domain.encode()).digest() + bytes([flags]) + self.count.to_bytes(4)

    def _client(self, kind: str, challenge: str) -> bytes:
        assert base64url_to_bytes(challenge)
        return json.dumps({"type": kind, "challenge": challenge, "origin": self._origin}).encode()

    def _credential(self, **response: bytes) -> dict[str, Any]:
        parts = {name: bytes_to_base64url(value) for name, value in response.items()}
        return {
            "id": self.id,
            "rawId": self.id,
            "type": "public-key",
            "response": parts,
            "clientExtensionResults": {},
        }

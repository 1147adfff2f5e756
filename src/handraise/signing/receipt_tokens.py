"""Receipts as tokens: compact JWS, signed with Ed25519.

A token names its key, and the algorithm is fixed: what a token says about its algorithm is compared and never followed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from handraise.model.errors import MissingExtra, ReceiptRefused, UnsafeStore
from handraise.model.receipts import Receipt, receipt_from_claims

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import OKPKey

    from handraise.signing.key_files import key_id_of, load_private_key, load_public_key
except ModuleNotFoundError as error:
    raise MissingExtra("joserfc", "gate") from error

ALGORITHM = "Ed25519"
"""The algorithm of RFC 9864, which deprecates the older name EdDSA: that does not say which curve."""
TYPE = "handraise-receipt+jwt"
LONGEST_TOKEN = 65_536

_MAKE = "handraise receipt key FILE"


class ReceiptKey:
    """A private key that signs receipts. Those of the `accepted` keys are verified too."""

    def __init__(self, key: Ed25519PrivateKey, accepted: Sequence[Ed25519PublicKey] = ()) -> None:
        self._key = OKPKey.import_key(key)
        self._header = {"alg": ALGORITHM, "typ": TYPE, "kid": key_id_of(key.public_key())}
        self.verifier = ReceiptVerifier([key.public_key(), *accepted])

    def sign(self, receipt: Receipt) -> str:
        """The token of a receipt."""
        claims = json.dumps(receipt.to_claims(), separators=(",", ":")).encode()
        return jws.serialize_compact(dict(self._header), claims, self._key, algorithms=[ALGORITHM])


class ReceiptVerifier:
    """Verifies receipts with one or more public keys."""

    def __init__(self, keys: Sequence[Ed25519PublicKey]) -> None:
        self._keys = {key_id_of(key): OKPKey.import_key(key) for key in keys}

    def verify(self, token: str, *, now: datetime) -> Receipt:
        """The receipt in a token. Raises `ReceiptRefused` unless one of the keys signed it and it is valid now."""
        receipt = self.read(token)
        if receipt.expires_at <= now:
            raise ReceiptRefused(
                f"it expired at {receipt.expires_at:%Y-%m-%d %H:%M:%S} UTC. The agent can get a new one"
            )
        return receipt

    def read(self, token: str) -> Receipt:
        """The receipt in a token, even if it has expired. Raises `ReceiptRefused` unless one of the keys signed it."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            raise ReceiptRefused("it is not a receipt")
        key = self._keys.get(_key_id(token))
        if key is None:
            raise ReceiptRefused("it is signed with another key")
        try:
            signed = jws.deserialize_compact(token, key, algorithms=[ALGORITHM])
            claims = json.loads(signed.payload)
        except (JoseError, ValueError, RecursionError) as error:
            raise ReceiptRefused("its signature is not valid") from error
        try:
            return receipt_from_claims(claims)
        except ValueError as error:
            raise ReceiptRefused(str(error)) from error

    def key_set(self) -> dict[str, list[dict[str, str]]]:
        """The public keys as a JSON Web Key Set (RFC 7517)."""
        return {
            "keys": [
                {"kty": "OKP", "crv": "Ed25519", "x": str(key.as_dict(private=False)["x"]), "kid": name}
                | {"alg": ALGORITHM, "use": "sig"}
                for name, key in self._keys.items()
            ]
        }


def load_receipt_key(path: str | os.PathLike[str], accepted: Sequence[Path] = ()) -> ReceiptKey:
    """Load the key that signs receipts, and the public keys in other files, whose receipts are accepted as well.

    Raises `UnsafeStore` if one of them is not valid, or if others may read the private key.
    """
    try:
        public = [load_public_key(each) for each in accepted]
    except ValueError as error:
        raise UnsafeStore(f"{error} Name the .pub file of a key.") from error
    return ReceiptKey(load_private_key(Path(path), make=_MAKE), public)


def load_verifier(paths: Sequence[str | os.PathLike[str]]) -> ReceiptVerifier:
    """Load public keys from files: `.pub` files of `handraise receipt key`, or key sets of a server.

    Raises `ValueError` if there is no key in a file.
    """
    keys: list[Ed25519PublicKey] = []
    for path in map(Path, paths):
        text = path.read_bytes()
        keys += _keys_of_set(path, text) if text.lstrip().startswith(b"{") else [load_public_key(path)]
    return ReceiptVerifier(keys)


def _key_id(token: str) -> str:
    """The id of the key that a token names. Nothing else that it says about itself is followed."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, RecursionError) as error:
        raise ReceiptRefused("it is not a receipt") from error
    match header:
        case {"alg": alg, "typ": typ, "kid": str(key_id)} if (alg, typ, len(header)) == (ALGORITHM, TYPE, 3):
            return key_id
        case _:
            raise ReceiptRefused("it is not a receipt")


def _keys_of_set(path: Path, text: bytes) -> list[Ed25519PublicKey]:
    try:
        found = [OKPKey.import_key(each).public_key for each in json.loads(text)["keys"]]
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"There is no key set in {path} that can be read.") from error
    if not found or not all(isinstance(each, Ed25519PublicKey) for each in found):
        raise ValueError(f"The keys in {path} are not of Ed25519.")
    return [each for each in found if isinstance(each, Ed25519PublicKey)]

"""Key files of the audit trail and of receipts: Ed25519, each named by a digest of its public key."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from handraise.model.audit_verification import TrustedKey
from handraise.model.errors import MissingExtra, UnsafeStore

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "cryptography", "audit") from error

_OPEN_TO_OTHERS = 0o077


class KeySigner:
    """A private key, which signs the seals of an audit trail."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = key_id_of(key.public_key())

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._key.sign(message)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this is the key's signature of a message."""
        return _is_signed(self._key.public_key(), message, signature)


def key_id_of(key: Ed25519PublicKey) -> str:
    """The id of a key: the beginning of the SHA-256 of its public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def make_key(path: Path) -> str:
    """Write a new key to a file that only its owner may read, and its public key to `.pub`; return its id."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(private)
    path.with_name(f"{path.name}.pub").write_bytes(public)
    return key_id_of(key.public_key())


def load_signer(path: Path) -> KeySigner:
    """Load the key of the audit trail from a file. Raises `UnsafeStore` if it is not valid, or if others may read it."""
    return KeySigner(load_private_key(path, make="handraise audit key FILE"))


def load_private_key(path: Path, *, make: str) -> Ed25519PrivateKey:
    """Load the private key in a file. Raises `UnsafeStore`, which says how to `make` one, as `load_signer` does."""
    text = read_private_file(path)
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as error:
        raise UnsafeStore(f"There is no key in {path} that can be read. Make one: {make}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UnsafeStore(f"The key in {path} is not of Ed25519. Make one: {make}")
    return key


def read_private_file(path: Path) -> bytes:
    """Read a file with a key. Raises `UnsafeStore` if others may read it."""
    text = path.read_bytes()
    if os.name == "posix" and path.stat().st_mode & _OPEN_TO_OTHERS:
        raise UnsafeStore(f"Others may read the key in {path}. Run: chmod 600 {path}")
    return text


def trusted_key(path: Path, first: int = 1, last: int | None = None) -> TrustedKey:
    """The public key in a file, and the seals that it may have signed; raises `ValueError` if there is none in it."""
    key = load_public_key(path)
    return TrustedKey(
        key_id=key_id_of(key),
        has_signed=lambda message, signature: _is_signed(key, message, signature),
        first=first,
        last=last,
    )


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Load the public key in a file; raises `ValueError` if there is none in it."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"There is no public key in {path} that can be read.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"The key in {path} is not of Ed25519.")  # noqa: TRY004 -- what is wrong is the file
    return key


def _is_signed(key: Ed25519PublicKey, message: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True

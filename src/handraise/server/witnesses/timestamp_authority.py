"""Timestamps of an RFC 3161 authority: who has one over a seal can show when, at the latest, it existed."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from handraise.channels.http_errors import status_error
from handraise.channels.safe_http import URL, SafeHttpClient, place_of
from handraise.model.errors import MissingExtra
from handraise.model.witnesses import ChainHead
from handraise.ports.channel import NotSent
from handraise.server.witnesses.witness_file import FileWitness

try:
    from cryptography import x509
    from rfc3161_client import (
        HashAlgorithm,
        PKIStatus,
        TimestampRequestBuilder,
        TimeStampResponse,
        VerificationError,
        Verifier,
        VerifierBuilder,
        decode_timestamp_response,
    )
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "rfc3161-client", "audit") from error

_YES = range(200, 300)
_LARGEST = 65_536
_SHA256 = x509.ObjectIdentifier("2.16.840.1.101.3.4.2.1")


class TimestampWitness:
    """An authority that signs when it saw a digest. It keeps nothing: its timestamps are added to a file."""

    batch = 1

    def __init__(
        self, client: SafeHttpClient, url: URL, file: FileWitness, *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._url = url
        self._file = file
        self._now = now

    async def send(self, heads: Sequence[ChainHead]) -> None:
        """Get a timestamp for each head, and add it to the file."""
        for head in heads:
            token = await self._stamp(head.digest)
            stamped = {
                **head.record,
                "authority": place_of(self._url),
                "timestamp": base64.b64encode(token).decode(),
            }
            await self._file.add([stamped])

    async def _stamp(self, digest: bytes) -> bytes:
        query = TimestampRequestBuilder().data(digest).hash_algorithm(HashAlgorithm.SHA256).build()
        answered = await self._client.post(
            self._url,
            headers={"content-type": "application/timestamp-query", "user-agent": "handraise"},
            content=query.as_bytes(),
            keep=_LARGEST,
        )
        if answered.status not in _YES:
            raise status_error("the authority", answered, final=(), now=self._now())
        try:
            response = decode_timestamp_response(answered.body)
            granted = PKIStatus(response.status) is PKIStatus.GRANTED
            fits = granted and (
                response.tst_info.nonce == query.nonce and _imprint_of(response) == _imprint(digest)
            )
        except ValueError as error:
            raise NotSent("the authority answered with something that is not a timestamp") from error
        if not granted:
            raise NotSent("the authority refused to give a timestamp")
        if not fits:
            raise NotSent("the authority gave a timestamp of something else")
        return answered.body


class TimestampVerifier:
    """Checks timestamps with the certificates of the authorities that are trusted."""

    def __init__(self, certificates: Sequence[Path]) -> None:
        """Raises `ValueError` if a file has no certificate."""
        found = dict.fromkeys(each for path in certificates for each in _certificates_in(path))
        roots = [each for each in found if each.issuer == each.subject]
        others = [each for each in found if each.issuer != each.subject]
        if not roots:
            raise ValueError(
                "None of the certificates is a root: give the one that the authority's certificates end in."
            )
        self._verifier: Verifier = VerifierBuilder(roots=roots, intermediates=others).build()

    def stamped_at(self, text: str, digest: bytes) -> datetime:
        """When an authority saw a digest; raises `ValueError` if it did not."""
        try:
            response = decode_timestamp_response(base64.b64decode(text, validate=True))
            self._verifier.verify(response, _imprint(digest))
        except (ValueError, VerificationError) as error:
            raise ValueError(f"the timestamp is not valid: {error}") from error
        if _imprint_of(response) != _imprint(digest):
            raise ValueError("the timestamp is of another kind of digest")
        return response.tst_info.gen_time


def _certificates_in(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"There is no certificate in {path} that can be read.") from error


def _imprint_of(response: TimeStampResponse) -> bytes:
    imprint = response.tst_info.message_imprint
    return imprint.message if imprint.hash_algorithm == _SHA256 else b""


def _imprint(digest: bytes) -> bytes:
    """What an authority signs: the SHA-256 of a seal's digest."""
    return hashlib.sha256(digest).digest()

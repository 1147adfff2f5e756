"""A timestamp authority on loopback: `openssl ts` behind a small HTTP server."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from support.webhook_receiver import Got, Receiver, Says, receiving

_CONFIG = """
[tsa]
default_tsa = main
[main]
serial = {folder}/serial
signer_cert = {folder}/authority.pem
signer_key = {folder}/authority.key
certs = {folder}/authority.pem
signer_digest = sha256
digests = sha256
default_policy = 1.3.6.1.4.1.4146.2.3
accuracy = secs:1
ess_cert_id_alg = sha256
"""


@dataclass
class Authority:
    """A timestamp authority, and what it answers instead of a timestamp, if anything."""

    receiver: Receiver
    root: Path
    folder: Path
    says: Says | None = None

    @property
    def url(self) -> str:
        """Its address as a witness."""
        return f"rfc3161+http://127.0.0.1:{self.receiver.port}/tsr"

    async def answer(self, got: Got) -> Says:
        """Stamp what is asked, as the openssl command does it."""
        if self.says is not None:
            return self.says
        assert got.headers["content-type"] == "application/timestamp-query"
        (self.folder / "query.tsq").write_bytes(got.body)
        command = ("ts", "-reply", "-config", "tsa.conf", "-queryfile", "query.tsq", "-out", "reply.tsr")
        openssl = shutil.which("openssl")
        assert openssl is not None, "the command openssl is not installed"
        process = await asyncio.create_subprocess_exec(
            openssl, *command, cwd=self.folder, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
        reply = (self.folder / "reply.tsr").read_bytes()
        return Says(200, {"content-type": "application/timestamp-reply"}, reply)


@asynccontextmanager
async def timestamp_authority(folder: Path) -> AsyncIterator[Authority]:
    """An authority with a root certificate of its own, for as long as this context lasts."""
    folder.mkdir()
    root_key, root = _certificate("Root", None)
    (folder / "root.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    key, certificate = _certificate("Authority", (root_key, root))
    (folder / "authority.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "authority.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (folder / "serial").write_text("01\n")
    (folder / "tsa.conf").write_text(_CONFIG.format(folder=folder))
    async with receiving() as receiver:
        authority = Authority(receiver, folder / "root.pem", folder)
        receiver.answer = authority.answer
        yield authority


def _certificate(
    name: str, issuer: tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[1].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        builder = builder.add_extension(usage, critical=True)
    return key, builder.sign(key if issuer is None else issuer[0], hashes.SHA256())

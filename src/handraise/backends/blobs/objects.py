"""The bytes of files in object storage: S3 and what speaks its protocol, Google Cloud Storage, Azure."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from handraise.backends.blobs.folder import place_of
from handraise.model.errors import MissingExtra, StoreUnavailable

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ModuleNotFoundError as error:
    raise MissingExtra("obstore", "objects") from error

SCHEMES = ("s3", "gs", "az")
"""The addresses of object storage. Credentials come from the environment, as its own tools read them."""

_WITHIN = timedelta(seconds=30)


class ObjectBlobs:
    """Bytes as objects of a bucket. See `handraise.ports.Blobs` for what each method promises."""

    def __init__(self, address: str) -> None:
        retries: Any = {"max_retries": 3, "retry_timeout": _WITHIN}
        options: Any = {
            "timeout": _WITHIN,
            # Our options would replace what its tools read from the environment.
            "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
        }
        self._store = from_url(address, client_options=options, retry_config=retries)

    async def put(self, workspace: str, key: str, data: bytes) -> None:
        """Store bytes; see the port."""
        try:
            await obstore.put_async(self._store, place_of(workspace, key), data)
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error

    async def get(self, workspace: str, key: str) -> bytes | None:
        """Bytes; see the port."""
        try:
            found = await obstore.get_async(self._store, place_of(workspace, key))
            return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error

    async def delete(self, workspace: str, key: str) -> None:
        """Delete bytes; see the port."""
        try:
            await obstore.delete_async(self._store, place_of(workspace, key))
        except FileNotFoundError:
            pass
        except (BaseError, OSError) as error:
            raise _unavailable(error) from error


def _unavailable(error: BaseException) -> StoreUnavailable:
    return StoreUnavailable(f"The object storage of files cannot be used: {type(error).__name__}")

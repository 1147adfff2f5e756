"""Channels without the certificates of the world: all peers here are ours, and to read those takes 60 ms each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import certificate


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one certificate, of nobody."""
    return certificate(tmp_path_factory.mktemp("authority"), "nobody.example")[0]


@pytest.fixture(scope="module", autouse=True)
def _no_certificates_of_the_world(one_authority: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(one_authority))
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every chat service its own table of what it may answer; see `chat_contract`."""
    if "service_says" in metafunc.fixturenames:
        metafunc.parametrize("service_says", metafunc.cls.answers)

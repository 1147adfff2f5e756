"""schemathesis against a running server: whatever is sent, no fault of the server and nothing undocumented.

The full size: HANDRAISE_TIER=nightly HANDRAISE_PROOF_REQUESTS=100000 pytest -m proof tests/chaos/test_requests.py -s
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.issuer import ThreadIssuer, issuer_at
from support.server_process import free_clock, server_process
from tests.conftest import own_database
from tests.tiers import NIGHTLY, SEED, drawn, sized

REQUESTS = int(os.environ.get("HANDRAISE_PROOF_REQUESTS") or sized(gate=150, nightly=5_000))
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "ignored_auth"
)
NOT_FUZZED = {
    "follow_events": "a stream that does not end; its parameters are those of the feed",
    "end_session": "would sign out the very session that fuzzes",
}


@pytest.mark.proof
@pytest.mark.only_proof_of("no request that can be made up makes the server fail")
@pytest.mark.timeout(600 + REQUESTS // 5)
def test_no_request_makes_the_server_fail_or_say_what_is_not_documented(tmp_path: Path) -> None:
    free_clock(tmp_path / "clock")
    limits = {"rate_limit": "1000000/second", "sign_in_limit": "1000000/second", "longest_wait": "0.2"}
    sent: Counter[str] = Counter()
    with (
        own_database() as store,
        server_process(store, tmp_path / "clock", **limits) as address,
        issuer_at(store) as issuer,
    ):
        callers = drawn(("agent", "person", "nobody"), 1)
        for who in callers:
            token = asyncio.run(token_of(who, issuer))
            sent[who] = fuzz(address, token, tmp_path / who, REQUESTS // len(callers) + 1)
    print(f"\n{sum(sent.values())} requests with seed {1 if NIGHTLY else SEED + 1}, no failure: {dict(sent)}")
    assert sum(sent.values()) >= REQUESTS


async def token_of(who: str, issuer: ThreadIssuer) -> str:
    if who == "agent":
        return await issuer.agent("fuzzed", "ana")
    return await issuer.person("fuzzed", "ana") if who == "person" else ""


def fuzz(address: str, token: str, reports: Path, at_least: int) -> int:
    """Send at least so many requests with this token, in rounds with other seeds; give back how many."""
    # In the gate, one round of something else every day.
    sent, seed = 0, 0 if NIGHTLY else SEED
    phases, examples = ("examples,coverage,fuzzing,stateful", 3) if NIGHTLY else ("fuzzing", 1)
    while sent < at_least:
        seed += 1
        report = reports / f"{seed}.json"
        report.parent.mkdir(exist_ok=True)
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/v1/openapi.json",
            "--checks", CHECKS, "--seed", str(seed), "--phases", phases,
            "--max-examples", str(max(examples, at_least // 100)), "--workers", "1", "--warnings", "off",
            "--continue-on-failure", "--suppress-health-check", "all", "--generation-database", "none",
            "--report", "json", "--report-json-path", str(report), "--no-color",
            *(each for name in NOT_FUZZED for each in ("--exclude-operation-id", name)),
            *(("-H", f"Authorization: Bearer {token}") if token else ()),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=reports)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        sent += json.loads(report.read_text())["test_cases"]["generated"]
    return sent

"""Which columns hold a person or their words, and what erasing a person does with them. A test names every column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Erasing = Literal["with the question", "deleted", "replaced"]

PERSONAL: Mapping[str, Mapping[str, Erasing]] = {
    "addresses": {
        "destination": "deleted",
        "id": "deleted",
        "recipient": "deleted",
    },
    "agent_keys": {
        "created_by": "replaced",
        "revoked_by": "replaced",
    },
    "deliveries": {
        "asker": "with the question",
        "destination": "with the question",
        "problem": "with the question",
        "receipt": "with the question",
        "recipient": "with the question",
    },
    "events": {
        "actor": "with the question",
        "channel": "with the question",
        "data": "with the question",
        "key": "with the question",
    },
    "files": {
        "owner": "replaced",
    },
    "grants": {
        "asker": "with the question",
        "conversation": "with the question",
        "digest": "with the question",
        "giver_groups": "with the question",
        "granted_by": "with the question",
        "revoked_by": "replaced",
    },
    "holds": {
        "actor": "replaced",
        "reason": "replaced",
    },
    "inbox": {
        "aside": "with the question",
        "asker": "with the question",
        "conversation": "with the question",
        "recipient": "with the question",
        "taken_by": "with the question",
    },
    "links": {
        "person": "deleted",
        "vouched_by": "replaced",
    },
    "members": {
        "person": "deleted",
    },
    "outbox": {
        "data": "with the question",
    },
    "passkey_nonces": {
        "person": "deleted",
    },
    "passkeys": {
        "name": "deleted",
        "person": "deleted",
        "public_key": "deleted",
        "vouched_by": "replaced",
    },
    "people": {
        "away_from": "deleted",
        "away_until": "deleted",
        "deputy": "replaced",
        "email": "deleted",
        "email_by": "replaced",
        "email_folded": "deleted",
        "id": "deleted",
        "identity": "deleted",
        "language": "deleted",
        "name": "deleted",
        "signed_in_at": "deleted",
        "time_zone": "deleted",
    },
    "policies": {
        "actor": "replaced",
    },
    "provisioned": {
        "document": "deleted",
        "id": "deleted",
        "name_folded": "deleted",
    },
    "question_links": {
        "created_by": "replaced",
        "person": "with the question",
    },
    "questions": {
        "added": "with the question",
        "aside": "with the question",
        "asker": "with the question",
        "attachments": "with the question",
        "context": "with the question",
        "conversation": "with the question",
        "form": "with the question",
        "key": "with the question",
        "needs": "with the question",
        "outcome": "with the question",
        "prompt": "with the question",
        "recipients": "with the question",
        "replies": "with the question",
        "report": "with the question",
        "ruling": "with the question",
        "shared": "with the question",
        "state": "with the question",
        "steps": "with the question",
        "taken_by": "with the question",
        "tool_call": "with the question",
        "topic": "with the question",
        "trace": "with the question",
        "voters": "with the question",
        "votes": "with the question",
    },
    "requests": {
        "actor": "deleted",
        "body": "deleted",
    },
    "rule_suspensions": {
        "actor": "replaced",
    },
    "salts": {
        "salt": "with the question",
    },
    "saved_views": {
        "name": "deleted",
        "person": "deleted",
        "query": "deleted",
    },
    "search_entries": {
        "words": "with the question",
    },
    "search_words": {
        "tags": "with the question",
        "words": "with the question",
    },
    "search_words_content": {
        "c0": "with the question",
        "c1": "with the question",
    },
    "search_words_data": {
        "block": "with the question",
    },
    "sessions": {
        "person": "deleted",
        "provider_session": "deleted",
        "vouched_by": "replaced",
    },
    "standing_answers": {
        "given_by": "with the question",
        "giver_groups": "with the question",
        "revoked_by": "replaced",
        "topic": "with the question",
        "value": "with the question",
    },
    "stops": {
        "actor": "replaced",
        "why": "replaced",
    },
}
"""The columns with a person or their words: gone with a question that concerns them, deleted, or replaced by a word."""

KEPT: Mapping[str, str] = {
    "agent_keys.agent": "an agent is no person",
    "blobs.data": "the bytes of a file go when nothing refers to it any more",
    "calendars.ics": "as the rota",
    "calendars.rota": "a group's rota names its people: change it with the group",
    "calendars.shifts": "as the rota",
    "files.digest": "the file goes when nothing refers to it any more",
    "files.media_type": "as the digest",
    "policies.document": "a rule may name somebody: put a policy without the name",
    "quotas.agent": "an agent is no person",
    "removals.actor": "the audit trail says who removed something",
    "routing.policy": "a rule may name somebody: put it without the name",
    "stops.agent": "an agent is no person",
    "stops.tool": "a tool is no person",
}
"""What may name somebody and stays, and why."""

IMPERSONAL: Mapping[str, frozenset[str]] = {
    "addresses": frozenset(["channel"]),
    "agent_keys": frozenset(["created_at", "digest", "id", "last_used_at", "revoked_at"]),
    "blobs": frozenset(["key", "place"]),
    "calendars": frozenset(["fetched_at", "group_name", "hours", "problem", "tried_at"]),
    "deliveries": frozenset(
        [
            "bundle",
            "channel",
            "created_at",
            "due_at",
            "id",
            "question_id",
            "rate_limit_key",
            "reason",
            "sent_at",
            "stale",
            "status",
            "tries",
            "turn",
        ]
    ),
    "events": frozenset(["at", "kind", "number", "question_id", "transaction"]),
    "file_references": frozenset(["at", "checked", "key", "question_id"]),
    "files": frozenset(["key", "referred", "removed_at", "size", "stored", "used_at"]),
    "grants": frozenset(
        ["created_at", "expires_at", "giver_backed", "id", "question_id", "revoked_at", "scope", "tool"]
    ),
    "holds": frozenset(["name", "question_id", "since"]),
    "imports": frozenset(["file", "lines"]),
    "inbox": frozenset(
        [
            "asked_at",
            "due_at",
            "follows",
            "kind",
            "likeness",
            "main",
            "open",
            "question_id",
            "step",
            "taken_until",
            "takes_votes",
            "tool",
            "topic_key",
            "unheard_at",
            "urgency",
        ]
    ),
    "links": frozenset(["created_at", "digest", "expires_at", "id", "purpose"]),
    "listeners": frozenset(["feeds", "port", "process", "seen_at"]),
    "members": frozenset(["group_name", "provided"]),
    "migrations": frozenset(["applied_at", "digest", "name", "number", "oldest_release"]),
    "numbering": frozenset(["cluster", "epoch", "only_one", "transaction"]),
    "outbox": frozenset(["at", "kind", "number", "question_id"]),
    "passkey_nonces": frozenset(["expires_at", "id"]),
    "passkeys": frozenset(["created_at", "domain", "id", "last_used_at", "sign_count"]),
    "people": frozenset(["admin_provided", "created_at", "disabled_at", "role"]),
    "policies": frozenset(["at", "version"]),
    "provisioned": frozenset(["changed_at", "created_at", "kind"]),
    "question_links": frozenset(["channel", "created_at", "digest", "expires_at", "id", "question_id"]),
    "questions": frozenset(
        [
            "asked_at",
            "asked_back",
            "attempts",
            "consumed_at",
            "evidence",
            "expires_at",
            "follows",
            "heard_at",
            "heartbeat",
            "id",
            "max_attempts",
            "missing",
            "quorum",
            "replaced_by",
            "replaces",
            "replied",
            "reported_at",
            "sending_until",
            "sent_at",
            "settled_at",
            "status",
            "stepped_at",
            "steps_taken",
            "taken_back_at",
            "taken_until",
            "thread",
            "topic_key",
            "undo_for",
            "unreached_at",
            "veto",
        ]
    ),
    "quotas": frozenset(["pending"]),
    "removals": frozenset(["at", "cursors", "number", "question_id", "seal", "what"]),
    "requests": frozenset(["began_at", "fingerprint", "key", "made", "released", "status", "turns"]),
    "retention": frozenset(["keep"]),
    "rule_suspensions": frozenset(["at", "question_id", "rule"]),
    "salts": frozenset(["question_id"]),
    "saved_views": frozenset(["created_at"]),
    "seals": frozenset(
        [
            "cursors",
            "key_id",
            "last_number",
            "last_transaction",
            "leaves",
            "number",
            "oldest",
            "previous",
            "sealed_at",
            "signature",
        ]
    ),
    "search_entries": frozenset(["number", "question_id"]),
    "search_progress": frozenset(["number", "transaction"]),
    "search_words_content": frozenset(["id"]),
    "search_words_data": frozenset(["id"]),
    "sessions": frozenset(["created_at", "digest", "expires_at", "how", "id"]),
    "standing_answers": frozenset(
        [
            "contradicted_in",
            "created_at",
            "expires_at",
            "giver_backed",
            "id",
            "question_id",
            "revoked_at",
            "spot_check",
            "topic_key",
        ]
    ),
    "stops": frozenset(["at", "id"]),
}
"""All other columns. `workspace` is none of them: every table has it."""

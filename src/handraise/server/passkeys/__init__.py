"""Passkeys: made and checked with WebAuthn, and used once for each decision."""

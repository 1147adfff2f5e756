"""Signatures: key files, and receipts as signed tokens. This needs cryptography, and for receipts joserfc."""

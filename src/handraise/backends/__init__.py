"""Stores and buses that fit each other: memory, SQLite and PostgreSQL."""

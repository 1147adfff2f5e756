"""Stores and buses that work together: memory, SQLite and PostgreSQL."""

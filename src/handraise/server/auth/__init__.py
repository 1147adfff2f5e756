"""Authentication: who is calling, and how people and agents get their credentials."""

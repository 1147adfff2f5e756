"""Whether PostgreSQL itself keeps workspaces apart, and what is refused if it does not."""

from __future__ import annotations

import asyncpg

from handraise.backends.postgres.connections import Connection, connection, transaction
from handraise.backends.postgres.database import RowSecurity
from handraise.backends.postgres.pool import Pool
from handraise.backends.sql_files import load_statements
from handraise.model.errors import UnsafeStore

APP_ROLE = "handraise_app"
"""The role that owns nothing. A login that is not bound by row-level security takes it for every transaction."""

_OWNER = (
    "This role owns the tables. Log in as the role of the servers instead: deploy/postgres/roles.sql makes "
    "handraise_server. Or, to use this one:"
)

STATEMENTS = load_statements("handraise.backends.postgres", "row_security.sql")


async def row_security_of(pool: Pool) -> RowSecurity | None:
    """Return the row security that binds this login, or None if it bypasses row-level security."""
    async with connection(pool) as acquired:
        (login,) = await acquired.fetch(STATEMENTS["role"].numbered)
    return None if login["bypasses"] else RowSecurity(role=None)


async def checked_row_security(pool: Pool) -> RowSecurity:
    """Row security that works; if it would not, `UnsafeStore` says what to do."""
    async with connection(pool) as acquired:
        (login,) = await acquired.fetch(STATEMENTS["role"].numbered)
        row_security = RowSecurity(role=None if login["loophole"] is None else APP_ROLE)
        try:
            # A full scan of a large table would be over only at its end, because every row is hidden.
            async with transaction(acquired, f"{row_security.begin}; set local enable_seqscan = off"):
                await _check(acquired)
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            owns = login["loophole"] is not None and not login["bypasses"]
            instead = f"{_OWNER} " if owns else ""
            raise UnsafeStore(
                f"PostgreSQL cannot keep workspaces apart for {login['name']}: {error}. {instead}In this database, as its "
                f"owner or an administrator, run: create role {APP_ROLE} nologin (unless it is there); "
                f"grant {APP_ROLE} to {login['name']}; select handraise.allow_app();"
            ) from error
    return row_security


async def _check(acquired: Connection) -> None:
    """Check row security in a transaction that has no workspace."""
    (role,) = await acquired.fetch(STATEMENTS["role"].numbered)
    if role["loophole"] is not None:
        raise UnsafeStore(
            f"PostgreSQL would not keep workspaces apart: {role['name']} {role['loophole']}. Run: {role['repair']};"
        )
    for breach in await acquired.fetch(STATEMENTS["breaches"].numbered):
        raise UnsafeStore(
            f"PostgreSQL would not keep workspaces apart: {breach['name']} {breach['loophole']}. "
            f"Run: {breach['repair']};"
        )
    for leak in await acquired.fetch(STATEMENTS["leaks"].numbered):
        raise UnsafeStore(
            f"PostgreSQL does not keep workspaces apart: {role['name']} sees rows of handraise.{leak['name']} with "
            "no workspace set. Its policy must be: "
            "using (handraise.is_visible(workspace)) with check (handraise.is_visible(workspace))."
        )

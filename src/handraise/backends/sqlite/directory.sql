-- What SQLite does with the directory in its own way.

-- name: forget
-- Forget what was over longer than `:older_than` ago: the oldest requests, and the links and sessions that ended first.
delete from requests
where (workspace, actor, key) in (
    select workspace, actor, key from requests where began_at < :now - :older_than order by began_at limit :limit
)
returning 1 as number;
delete from links
where (workspace, id) in (
    select workspace, id from links where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;
delete from question_links
where (workspace, id) in (
    select workspace, id from question_links
    where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;
delete from sessions
where (workspace, id) in (
    select workspace, id from sessions where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;

-- name: workspaces_with_rotas
-- Some of the workspaces in which a group has a rota.
select distinct workspace from calendars where rota is not null order by workspace limit :at_most;

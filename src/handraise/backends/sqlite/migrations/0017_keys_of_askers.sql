-- oldest release: 0.1.0
-- A key is its asker's own, so that nobody can take another's. Askers that share one on purpose say so.
alter table questions add column shared integer not null default 0;

create unique index questions_by_owner_and_key
    on questions (workspace, (case when shared then '' else asker end), key) where key is not null;
drop index questions_by_key;

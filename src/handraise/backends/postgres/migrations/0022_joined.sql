-- oldest release: 0.1.0
-- Another key under which a question is found: that of a call that waits for the same answer. Its event has it, so that it
-- stays and goes with the question, and once more here, for the index. Nobody has any yet.
alter table handraise.events add column key text collate "C";
create unique index events_by_key on handraise.events (workspace, actor, key) where key is not null;

-- As before: what `*` stands for was settled when it was made.
create or replace function handraise.events_about(workspace text, person text) returns setof handraise.events
    language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select e.*
    from handraise.events as e
    where e.workspace = events_about.workspace and e.question_id = ''
        and (e.actor = events_about.person or e.data -> 'people' ? events_about.person);
end;

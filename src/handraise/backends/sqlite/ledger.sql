-- The audit trail. Instants are whole microseconds, lists are JSON arrays.

-- name: unsealed
-- Some of the workspaces with something to be sealed, walking from one to the next.
with recursive walk (workspace) as (
    select min(workspace) from events
    union all
    select (select min(e.workspace) from events as e where e.workspace > walk.workspace)
    from walk
    where walk.workspace is not null
)
select walk.workspace
from walk
where walk.workspace is not null and walk.workspace not in (select i.workspace from imports as i)
    and exists (
        select 1
        from (
            select e."transaction", e.place
            from events as e
            where e.workspace = walk.workspace
            order by e."transaction" desc, e.place desc
            limit 1
        ) as newest
        left join (
            select s.last_transaction, s.last_number
            from seals as s
            where s.workspace = walk.workspace
            order by s.number desc
            limit 1
        ) as sealed on true
        where (newest."transaction", newest.place)
            > (coalesce(sealed.last_transaction, 0), coalesce(sealed.last_number, 0))
    )
union
select workspace from removals where seal is null
limit :limit;

-- name: head
-- The last seal, the present instant, and the first seal of which an event is still there.
select
    :now as now,
    (
        select number
        from seals
        where workspace = :workspace and (last_transaction, last_number) >= (
            select e."transaction", e.place
            from events as e
            where e.workspace = :workspace
            order by e."transaction", e.place
            limit 1
        )
        order by number
        limit 1
    ) as needed,
    last.*
from (select 1)
left join (
    select *, iif(last_transaction, last_transaction || '.', '') || last_number as cursor from seals where workspace = :workspace order by number desc limit 1
) as last on true;

-- name: has_signed
-- Whether a seal is signed with a key.
select number from seals where workspace = :workspace and key_id = :key_id limit 1;

-- name: add_salts
-- Add salts for existing questions that have none; the new salts are concatenated, each of this length.
insert into salts (workspace, question_id, salt)
select q.workspace, q.id, substr(:salts, t.key * :length + 1, :length)
from json_each(:ids) as t
cross join questions as q on q.workspace = :workspace and q.id = t.value
where true
on conflict do nothing;

-- name: salts
-- The salts of questions.
select question_id, salt
from salts
where workspace = :workspace and question_id in (select value from json_each(:ids));

-- name: asked
-- What was asked.
select * from questions where workspace = :workspace and id in (select value from json_each(:ids));

-- name: removals_unsealed
-- Removals that no seal covers.
select * from removals where workspace = :workspace and seal is null order by number limit :limit;

-- name: removals_of_seal
-- Removals that a seal covers.
select * from removals where workspace = :workspace and seal = :seal order by number limit :limit;

-- name: events_behind
-- The events between two places.
select "transaction", number
from events
where workspace = :workspace and ("transaction", place) > (:after_transaction, :after_number)
    and ("transaction", place) <= (:last_transaction, :last_number)
order by "transaction", place;

-- name: append
-- Add a seal, unless its number is taken.
insert into seals (
    workspace, number, oldest, last_transaction, last_number, sealed_at, previous, leaves, cursors, signature, key_id
)
values (
    :workspace, :number, :oldest, :last_transaction, :last_number, :sealed_at, :previous, :leaves, :cursors, :signature,
    :key_id
)
on conflict do nothing
returning number;

-- name: cover_removals
-- Say which seal covers removals.
update removals set seal = :seal
where workspace = :workspace and seal is null and number in (select value from json_each(:numbers));

-- name: delete_old_removals
-- Delete what old seals say was removed.
delete from removals where workspace = :workspace and seal < :oldest;

-- name: delete_old_seals
-- Delete old seals.
delete from seals where workspace = :workspace and number < :oldest;

-- name: seals
-- Seals in their order.
select *, iif(last_transaction, last_transaction || '.', '') || last_number as cursor
from seals
where workspace = :workspace and number > :after
order by number
limit :limit;

-- name: concerning
-- The questions in which a person took part, or that name them.
select question_id as id
from events
where workspace = :workspace and question_id <> '' and (
    actor = :person
    or kind in ('asked', 'escalated', 'brought_in', 'handed_over', 'voted')
        and exists (select 1 from json_each(events.data, '$.to') as t where t.value = :person)
)
union
select q.id
from questions as q
where q.workspace = :workspace and (
    q.asker = :person
    or q.outcome ->> '$.by' = :person
    or exists (select 1 from json_each(q.recipients) as r where r.value = :person)
    or exists (select 1 from json_each(coalesce(q.added, '[]')) as r where r.value = :person)
    or exists (select 1 from json_each(coalesce(q.aside, '{}')) as r where r.key = :person)
    or exists (select 1 from json_tree(coalesce(q.needs, '[]')) as n where n.atom = :person)
    or exists (select 1 from json_each(coalesce(q.votes, '{}')) as v where v.key = :person)
    or exists (
        select 1
        from json_each(coalesce(q.steps, '[]')) as s, json_each(s.value, '$.to') as t
        where t.value = :person
    )
);

-- name: is_held
-- Whether a question, or all of its workspace, is held.
select 1 from holds where workspace = :workspace and (question_id is null or question_id = :id) limit 1;

-- name: note_removal
-- Note the removal of a question whose events are still there, if the workspace is sealed.
insert into removals (workspace, question_id, what, at, actor, cursors)
select :workspace, question_id, :what, :now, :actor, group_concat(cursor, ',')
from (
    select question_id, iif("transaction", "transaction" || '.', '') || number as cursor
    from events
    where workspace = :workspace and question_id = :id
    order by "transaction", place
)
where exists (select 1 from seals where workspace = :workspace)
group by question_id;

-- name: led
-- The topic of a pending question that others may follow.
select topic_key from inbox where workspace = :workspace and question_id = :id and topic_key is not null;

-- name: erase_question
-- Erase a question.
delete from questions where workspace = :workspace and id = :id returning id;

-- name: erase_entries
-- Erase the outbox entries of a question.
delete from outbox where workspace = :workspace and question_id = :id;

-- name: erase_links
-- Erase the links to a question.
delete from question_links where workspace = :workspace and question_id = :id;

-- name: erase_grants
-- Erase the grants that a question left.
delete from grants where workspace = :workspace and question_id = :id;

-- name: erase_standing_answers
-- Erase the standing answers that a question left.
delete from standing_answers where workspace = :workspace and question_id = :id;

-- name: erase_salt
-- Erase a question's salt.
delete from salts where workspace = :workspace and question_id = :id;

-- name: erase_requests
-- Erase the responses to requests about a question.
delete from requests where workspace = :workspace and (made = :id or instr(coalesce(body, ''), :id) > 0);

-- name: erase_person
-- Erase what else is kept about a person. If the workspace is sealed, note the removal of its events that concern them.
-- If only their name is kept, another word replaces it.
insert into removals (workspace, question_id, what, at, actor, cursors)
select :workspace, '', 'erased', :now, null, group_concat(cursor, ',')
from (
    select iif(e."transaction", e."transaction" || '.', '') || e.number as cursor
    from events as e
    where e.workspace = :workspace and e.question_id = '' and (
        e.actor = :person or exists (select 1 from json_each(e.data, '$.people') as p where p.value = :person)
    )
    order by e."transaction", e.place
)
where exists (select 1 from seals where workspace = :workspace)
having count(*) > 0;
delete from events
where workspace = :workspace and question_id = '' and (
    actor = :person or exists (select 1 from json_each(events.data, '$.people') as p where p.value = :person)
);
delete from members where workspace = :workspace and person = :person;
delete from sessions where workspace = :workspace and person = :person;
delete from links where workspace = :workspace and person = :person;
delete from question_links where workspace = :workspace and person = :person;
delete from passkeys where workspace = :workspace and person = :person;
delete from passkey_nonces where workspace = :workspace and person = :person;
delete from saved_views where workspace = :workspace and person = :person;
delete from provisioned where workspace = :workspace and kind = 'User' and id = :person;
delete from people where workspace = :workspace and id = :person;
update people set deputy = null where workspace = :workspace and deputy = :person;
delete from addresses where workspace = :workspace and recipient = :person;
delete from deliveries where workspace = :workspace and recipient = :person and reason <> 'callback';
delete from requests
where workspace = :workspace
    and substr(actor, 1, length('person:' || :person || ' since ')) = 'person:' || :person || ' since ';
update agent_keys
set created_by = case created_by when :person then 'erased' else created_by end,
    revoked_by = case revoked_by when :person then 'erased' else revoked_by end
where workspace = :workspace and :person in (created_by, revoked_by);
update files
set owner = 'erased:' || key, used_at = case when referred then used_at else 0 end
where workspace = :workspace and owner = 'person:' || :person;
update people set email_by = 'erased' where workspace = :workspace and email_by = :person;
update stops set actor = 'erased', why = 'erased' where workspace = :workspace and actor = :person;
update holds set actor = 'erased', reason = 'erased' where workspace = :workspace and actor = :person;
update policies set actor = 'erased' where workspace = :workspace and actor = :person;
update rule_suspensions set actor = 'erased' where workspace = :workspace and actor = :person;
update grants set revoked_by = 'erased' where workspace = :workspace and revoked_by = :person;
update standing_answers set revoked_by = 'erased' where workspace = :workspace and revoked_by = :person;
update question_links set created_by = 'erased' where workspace = :workspace and created_by = :person;
update links set vouched_by = 'erased' where workspace = :workspace and vouched_by in (:person, 'address:' || :person);
update sessions set vouched_by = 'erased' where workspace = :workspace and vouched_by in (:person, 'address:' || :person);
update passkeys set vouched_by = 'erased' where workspace = :workspace and vouched_by in (:person, 'address:' || :person);

-- name: note_as_keeper
-- Store an event of the workspace.
insert into events (workspace, question_id, kind, at, actor, data)
values (:workspace, '', :kind, :now, :actor, :data);

-- name: rules
-- The rules of all workspaces that have their own.
select workspace, keep from retention;

-- name: rule
-- How long a workspace keeps what is settled.
select keep from retention where workspace = :workspace;

-- name: put_rule
-- Give a workspace its own rule, and store the event of it.
insert into events (workspace, question_id, kind, at, actor, data)
select :workspace, '', :kind, :now, :actor, :data
where not exists (select 1 from retention where workspace = :workspace and keep is :keep);
insert into retention (workspace, keep) values (:workspace, :keep)
on conflict (workspace) do update set keep = excluded.keep where retention.keep is not excluded.keep
returning workspace;

-- name: remove_rule
-- Take a workspace's rule away, and store the event of it.
insert into events (workspace, question_id, kind, at, actor, data)
select :workspace, '', :kind, :now, :actor, :data
from retention where workspace = :workspace;
delete from retention where workspace = :workspace returning workspace;

-- name: is_unsealed
-- Whether a question has an event that no seal covers, in a workspace that has seals.
select 1
from events as e
where e.workspace = :workspace and e.question_id = :id and (e."transaction", e.place) > (
    select s.last_transaction, s.last_number from seals as s where s.workspace = :workspace order by s.number desc limit 1
)
limit 1;

-- name: hold
-- Hold something, and store the event of it.
insert into events (workspace, question_id, kind, at, actor, data)
select :workspace, '', :kind, :now, :actor, :data
where not exists (select 1 from holds where workspace = :workspace and name = :name);
insert into holds (workspace, name, question_id, reason, since, actor)
values (:workspace, :name, :question_id, :reason, :now, :actor)
on conflict do nothing
returning name;

-- name: lift
-- Lift a hold, and store the event of it.
insert into events (workspace, question_id, kind, at, actor, data)
select :workspace, '', :kind, :now, :actor, :data
from holds where workspace = :workspace and name = :name;
delete from holds where workspace = :workspace and name = :name returning name;

-- name: holds
-- What is held.
select * from holds where workspace = :workspace order by name;

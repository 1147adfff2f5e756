-- The audit trail. `:now` is null in production: the clock of the database is used.

-- name: unsealed (may take long)
-- Some of the workspaces with something to be sealed.
select unsealed_workspaces as workspace from handraise.unsealed_workspaces(:limit);

-- name: head
-- The last seal, the present instant, and the first seal of which an event is still there.
select
    coalesce(:now::timestamptz, now()) as now,
    (
        select s.number
        from handraise.seals as s
        where s.workspace = :workspace
            and (s.last_transaction, s.last_number) >= (
                select e.transaction, e.number
                from handraise.events as e
                where e.workspace = :workspace
                order by e.transaction, e.number
                limit 1
            )
        order by s.number
        limit 1
    ) as needed,
    last.*
from (select) as one
left join lateral (
    select
        s.workspace, s.number, s.oldest, handraise.cursor_text(s.last_transaction, s.last_number) as cursor, s.sealed_at,
        s.previous, s.leaves, s.cursors, s.signature, s.key_id
    from handraise.seals as s
    where s.workspace = :workspace
    order by s.number desc
    limit 1
) as last on true;

-- name: has_signed
-- Whether a seal is signed with a key.
select number from handraise.seals where workspace = :workspace and key_id = :key_id limit 1;

-- name: add_salts
-- Add salts for existing questions that have none; the new salts are concatenated, each of this length.
insert into handraise.salts (workspace, question_id, salt)
select :workspace, t.id, substr(:salts::bytea, (t.place::int - 1) * :length::int + 1, :length::int)
from unnest(:ids::text[]) with ordinality as t (id, place)
where exists (select from handraise.questions as q where q.workspace = :workspace and q.id = t.id)
    or exists (select from handraise.archive_index as x where x.workspace = :workspace and x.id = t.id)
on conflict do nothing;

-- name: salts
-- The salts of questions.
select question_id, salt from handraise.salts where workspace = :workspace and question_id = any (:ids::text[]);

-- name: asked
-- What was asked in questions, archived or not.
select
    id, asker, key, conversation, tool_call, recipients, quorum, veto, max_attempts, prompt, form, context, state, steps,
    undo_for, heartbeat, replies, replaces, topic, needs, evidence, ruling, attachments
from handraise.questions
where workspace = :workspace and id = any (:ids::text[])
union all
select
    a.id, a.asker, a.key, a.conversation, a.tool_call, a.recipients, a.quorum, a.veto, a.max_attempts, a.prompt, a.form,
    a.context, a.state, a.steps, a.undo_for, a.heartbeat, a.replies, a.replaces, a.topic, a.needs, a.evidence, a.ruling, a.attachments
from unnest(:ids::text[]) as t (id)
cross join lateral (
    select x.settled_at
    from handraise.archive_index as x
    where x.workspace = :workspace and x.id = t.id and not exists (
        select from handraise.questions as q where q.workspace = :workspace and q.id = t.id
    )
    limit 1
) as place
cross join lateral (
    select b.*
    from handraise.archive as b
    where b.workspace = :workspace and b.id = t.id and b.settled_at = place.settled_at
    limit 1
) as a;

-- name: removals_unsealed
-- Removals that no seal covers.
select number, question_id, what, at, actor, cursors
from handraise.removals
where workspace = :workspace and seal is null
order by number
limit :limit;

-- name: removals_of_seal
-- Removals that a seal covers.
select number, question_id, what, at, actor, cursors
from handraise.removals
where workspace = :workspace and seal = :seal::bigint
order by number
limit :limit;

-- name: append (writes)
-- Add a seal after the last.
select handraise.append_seal(
    :workspace, :number::bigint, :oldest::bigint, null, null, :last_transaction::text::xid8, :last_number::bigint,
    :sealed_at::timestamptz, :previous::bytea, :leaves::bytea, :cursors, null, :signature::bytea, :key_id,
    :removals::bigint[]
) as appended;

-- name: seals
-- Seals in their order.
select
    workspace, number, oldest, handraise.cursor_text(last_transaction, last_number) as cursor, sealed_at, previous, leaves,
    cursors, signature, key_id
from handraise.seals
where workspace = :workspace and number > :after::bigint
order by number
limit :limit;

-- name: concerning (may take long)
-- The questions in which a person took part, or that name them.
select e.question_id as id
from handraise.events as e
where e.workspace = :workspace and e.question_id <> ''
    and (
        e.actor = :person
        or e.kind in ('asked', 'escalated', 'brought_in', 'handed_over', 'voted') and e.data -> 'to' ? :person
    )
union
select q.id
from (
    select h.workspace, h.id, h.asker, h.recipients, h.steps, h.votes, h.outcome, h.added, h.aside, h.needs
    from handraise.questions as h
    where h.workspace = :workspace
    union all
    select a.workspace, a.id, a.asker, a.recipients, a.steps, a.votes, a.outcome, a.added, a.aside, a.needs
    from handraise.archive as a
    where a.workspace = :workspace
) as q
where q.asker = :person or q.recipients ? :person or q.votes ? :person or q.outcome ->> 'by' = :person
    or q.added ? :person or q.aside ? :person
    or exists (select from jsonb_array_elements(q.needs) as n (need) where n.need -> 'people' ? :person)
    or exists (select from jsonb_array_elements(q.steps) as s (step) where s.step -> 'to' ? :person);

-- name: erase (as keeper, may take long, writes)
-- Erase questions.
select handraise.erase_questions(:workspace, :ids::text[], :actor, coalesce(:now::timestamptz, now())) as ids;

-- name: erase_person (as keeper, may take long, writes)
-- Erase what else is kept about a person.
select handraise.erase_person(:workspace, :person);

-- name: note_as_keeper (as keeper, writes)
-- Store an event of the workspace in the transaction of a keeper.
select handraise.note_change(coalesce(:now::timestamptz, now()), :workspace, :kind, :actor, :data::text::jsonb);

-- name: rule
-- How long a workspace keeps what is settled.
select keep from handraise.retention where workspace = :workspace;

-- name: put_rule (as keeper)
-- Give a workspace its own rule, and store the event of it.
with done as (
    insert into handraise.retention as r (workspace, keep) values (:workspace, :keep::interval)
    on conflict (workspace) do update set keep = excluded.keep where r.keep is distinct from excluded.keep
    returning r.workspace
)
select
    done.*,
    handraise.note_change(coalesce(:now::timestamptz, now()), :workspace, :kind, :actor, :data::text::jsonb)
from done;

-- name: remove_rule (as keeper)
-- Take a workspace's rule away, and store the event of it.
with done as (
    delete from handraise.retention where workspace = :workspace returning workspace
)
select
    done.*,
    handraise.note_change(coalesce(:now::timestamptz, now()), :workspace, :kind, :actor, :data::text::jsonb)
from done;

-- name: shortest_keep
-- The shortest time that any workspace keeps settled questions.
select handraise.shortest_keep() as keep;

-- name: may_remove
-- Whether this login may remove questions that are kept long enough.
select has_function_privilege('handraise.remove_archived(timestamptz, timestamptz, integer)', 'execute') as so;

-- name: hold
-- Hold something, and store the event of it.
with done as (
    insert into handraise.holds (workspace, name, question_id, reason, since, actor)
    values (:workspace, :name, :question_id, :reason, coalesce(:now::timestamptz, now()), :actor)
    on conflict do nothing
    returning name
),
noted as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select coalesce(:now::timestamptz, now()), :workspace, '', :kind, :actor, :data::text::jsonb from done
)
select * from done;

-- name: lift (as keeper)
-- Lift a hold, and store the event of it.
with done as (
    delete from handraise.holds where workspace = :workspace and name = :name returning name
)
select
    done.*,
    handraise.note_change(coalesce(:now::timestamptz, now()), :workspace, :kind, :actor, :data::text::jsonb)
from done;

-- name: holds
-- What is held.
select workspace, name, question_id, reason, since, actor
from handraise.holds
where workspace = :workspace
order by name;

-- name: newest_questions
-- The ids of the newest questions before one, and of what the inbox says is a question.
select id
from (
    (
        select q.id from handraise.questions as q
        where q.workspace = :workspace and (:before::text is null or q.id < :before::text)
        order by q.id desc limit :limit
    )
    union
    (
        select distinct i.question_id from handraise.inbox as i
        where i.workspace = :workspace and (:before::text is null or i.question_id < :before::text)
        order by i.question_id desc limit :limit
    )
) as newest
order by id desc
limit :limit;

-- name: inbox_rows
-- The places of questions in the inboxes.
select
    question_id, recipient, main, open, step, due_at, unheard_at, urgency, topic_key, follows, asker, conversation, kind, tool,
    takes_votes, aside, taken_by, taken_until
from handraise.inbox
where workspace = :workspace and question_id = any (:ids::text[])
order by question_id, recipient;

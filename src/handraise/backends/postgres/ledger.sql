-- What PostgreSQL does with the audit trail in its own way: only functions of the schema write and erase.

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

-- name: add_salts
-- Add salts for existing questions that have none; the new salts are concatenated, each of this length.
insert into handraise.salts (workspace, question_id, salt)
select :workspace, t.id, substr(:salts::bytea, (t.place::int - 1) * :length::int + 1, :length::int)
from unnest(:ids::text[]) with ordinality as t (id, place)
where exists (select from handraise.questions as q where q.workspace = :workspace and q.id = t.id)
on conflict do nothing;

-- name: asked
-- What was asked in questions.
select
    id, asker, key, conversation, tool_call, recipients, quorum, veto, max_attempts, prompt, form, context, state, steps,
    undo_for, heartbeat, replies, replaces, topic, needs, evidence, ruling, attachments
from handraise.questions
where workspace = :workspace and id = any (:ids::text[]);

-- name: append (writes)
-- Add a seal after the last.
select handraise.append_seal(
    :workspace, :number::bigint, :oldest::bigint, null, null, :last_transaction::text::xid8, :last_number::bigint,
    :sealed_at::timestamptz, :previous::bytea, :leaves::bytea, :cursors, null, :signature::bytea, :key_id,
    :removals::bigint[]
) as appended;

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
from handraise.questions as q
where q.workspace = :workspace
    and (
        q.asker = :person or q.recipients ? :person or q.votes ? :person or q.outcome ->> 'by' = :person
        or q.added ? :person or q.aside ? :person
        or exists (select from jsonb_array_elements(q.needs) as n (need) where n.need -> 'people' ? :person)
        or exists (select from jsonb_array_elements(q.steps) as s (step) where s.step -> 'to' ? :person)
    );

-- name: erase (as keeper, may take long, writes)
-- Erase questions.
select handraise.erase_questions(:workspace, :ids::text[], :actor, coalesce(:now::timestamptz, now())) as ids;

-- name: erase_person (as keeper, may take long, writes)
-- Erase what else is kept about a person.
select handraise.erase_person(:workspace, :person);

-- name: note_as_keeper (as keeper, writes)
-- Store an event of the workspace in the transaction of a keeper.
select handraise.note_change(coalesce(:now::timestamptz, now()), :workspace, :kind, :actor, :data::text::jsonb);

-- name: shortest_keep
-- The shortest time that any workspace keeps settled questions.
select handraise.shortest_keep() as keep;

-- name: may_remove
-- Whether this login may remove questions that are kept long enough.
select has_function_privilege('handraise.remove_settled(timestamptz, timestamptz, integer, text, xid8, bigint)', 'execute') as so;

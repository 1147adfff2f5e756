-- The audit trail.

-- name: has_signed
-- Whether a seal is signed with a key.
select number from handraise.seals where workspace = :workspace and key_id = :key_id limit 1;

-- name: salts
-- The salts of questions.
select question_id, salt from handraise.salts where workspace = :workspace and question_id ${in(:ids::text[])};

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

-- name: seals
-- Seals in their order. The transaction 0 is not in a cursor.
select
    workspace, number, oldest, coalesce(nullif(last_transaction::text || '.', '0.'), '') || last_number as cursor, sealed_at,
    previous, leaves, cursors, signature, key_id
from handraise.seals
where workspace = :workspace and number > :after::bigint
order by number
limit :limit;

-- name: rule
-- How long a workspace keeps what is settled.
select keep from handraise.retention where workspace = :workspace;

-- name: put_rule
-- Give a workspace its own rule; no row if it has the same.
insert into handraise.retention (workspace, keep) values (:workspace, :keep::interval)
on conflict (workspace) do update set keep = excluded.keep
where (retention.keep = excluded.keep or (retention.keep is null and excluded.keep is null)) is not true
returning workspace;

-- name: remove_rule
-- Take a workspace's rule away.
delete from handraise.retention where workspace = :workspace returning workspace;

-- name: hold
-- Hold something.
insert into handraise.holds (workspace, name, question_id, reason, since, actor)
values (:workspace, :name, :question_id, :reason, ${now}, :actor)
on conflict do nothing
returning name;

-- name: lift
-- Lift a hold.
delete from handraise.holds where workspace = :workspace and name = :name returning name;

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
    select *
    from (
        select q.id
        from handraise.questions as q
        where q.workspace = :workspace and (:before::text is null or q.id < :before::text)
        order by q.id desc
        limit :limit
    ) as asked
    union
    select *
    from (
        select distinct i.question_id
        from handraise.inbox as i
        where i.workspace = :workspace and (:before::text is null or i.question_id < :before::text)
        order by i.question_id desc
        limit :limit
    ) as placed
) as newest
order by id desc
limit :limit;

-- name: inbox_rows
-- The places of questions in the inboxes.
select
    question_id, recipient, main, open, step, due_at, unheard_at, urgency, topic_key, follows, asker, conversation, kind, tool,
    takes_votes, aside, taken_by, taken_until
from handraise.inbox
where workspace = :workspace and question_id ${in(:ids::text[])}
order by question_id, recipient;

-- What SQLite does with policies in its own way.

-- name: quota_of
-- How many pending questions an agent may have: its own quota, else that of the workspace, else this one.
select coalesce(
    (select pending from quotas where workspace = :workspace and agent = :asker),
    (select pending from quotas where workspace = :workspace and agent = ''),
    :quota
) as quota;

-- name: find_standing_answer
-- The standing answer that holds now for questions with this topic key, if its giver may still answer them.
select s.*
from standing_answers as s
where s.workspace = :workspace and s.given_by <> :asker
    and s.topic_key = :topic_key and s.revoked_at is null and s.expires_at > :now
    and exists (
        select 1
        from keepers as k
        where k.workspace = s.workspace and k.standing = s.id
            and k.name in (select value from json_each(case :recipients when '[]' then '["*"]' else :recipients end))
    )
order by s.created_at desc, s.id desc
limit 1;

-- name: keep_answer
-- Keep the answer to a question for its topic, if this person gave it. What was kept for the same topic before ends.
insert into standing_answers (
    workspace, id, topic, topic_key, given_by, question_id, value, spot_check, created_at, expires_at, giver_groups,
    giver_backed
)
select
    q.workspace, :standing, q.topic, q.topic_key, :actor, q.id, q.outcome -> '$.value', :spot_check, :now, :expires_at,
    :groups,
    case when exists (select 1 from people where workspace = :workspace and id = :actor) then exists (
        select 1
        from directory_names as d
        where d.workspace = :workspace and d.person = :actor
            and d.name in (select value from json_each(case q.recipients when '[]' then '["*"]' else q.recipients end))
    ) end
from questions as q
where q.workspace = :workspace and q.id = :id and q.status = 'answered' and q.topic_key is not null
    and q.outcome ->> '$.by' = :actor and coalesce(q.outcome ->> '$.source', 'person') = 'person' and :expires_at > :now;
insert into events (workspace, question_id, kind, at, actor, data)
select s.workspace, s.question_id, 'revoked', :now, :actor, json_object('standing', s.id)
from standing_answers as s
join standing_answers as k on k.workspace = :workspace and k.id = :standing and k.topic_key = s.topic_key
where s.workspace = :workspace and s.revoked_at is null and s.id <> :standing;
update standing_answers
set revoked_at = :now, revoked_by = :actor
where workspace = :workspace and revoked_at is null and id <> :standing
    and topic_key = (select k.topic_key from standing_answers as k where k.workspace = :workspace and k.id = :standing);
insert into events (workspace, question_id, kind, at, actor, data)
select workspace, question_id, 'kept', :now, :actor, :record
from standing_answers
where workspace = :workspace and id = :standing;
select * from standing_answers where workspace = :workspace and id = :standing;

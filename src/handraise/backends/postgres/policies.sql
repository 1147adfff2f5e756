-- What PostgreSQL does with policies in its own way: functions of the schema say who may still answer.

-- name: find_standing_answer
-- The standing answer that holds now for questions with this topic key, if its giver may still answer them.
select s.*
from handraise.standing_answers as s
where s.workspace = :workspace and s.given_by <> :asker and s.topic_key = :topic_key and s.revoked_at is null
    and s.expires_at > coalesce(:now::timestamptz, now())
    and handraise.is_still_backed(
        s.workspace, s.given_by, s.giver_backed, coalesce(s.giver_groups, '[]'), :recipients::text::jsonb
    )
order by s.created_at desc, s.id desc
limit 1;

-- name: keep_answer
-- Keep the answer to a question for its topic, if this person gave it. What was kept for the same topic before ends.
with kept as (
    insert into handraise.standing_answers (
        created_at, expires_at, spot_check, giver_backed, workspace, id, topic, topic_key, given_by, question_id, value,
        giver_groups
    )
    select
        coalesce(:now::timestamptz, now()), :expires_at, :spot_check, handraise.is_backed(q.workspace, :actor, q.recipients),
        q.workspace, :standing, q.topic, q.topic_key, :actor, q.id, q.outcome -> 'value', :groups::text::jsonb
    from handraise.questions as q
    where q.workspace = :workspace and q.id = :id and q.status = 'answered' and q.topic_key is not null
        and q.outcome ->> 'by' = :actor and coalesce(q.outcome ->> 'source', 'person') = 'person'
        and :expires_at > coalesce(:now::timestamptz, now())
    returning *
),
ended as (
    select e.*
    from kept
    cross join lateral handraise.end_older_answers(
        kept.workspace, kept.topic_key, kept.id, kept.created_at, kept.given_by
    ) as e
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select revoked_at, workspace, question_id, 'revoked', :actor, jsonb_build_object('standing', id) from ended
    union all
    select created_at, workspace, question_id, 'kept', :actor, :record::text::jsonb from kept
)
select * from kept;

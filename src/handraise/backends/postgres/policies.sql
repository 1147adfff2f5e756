-- The statements of policies in PostgreSQL.

-- name: policy_versions
-- Versions of a policy, the latest first.
select workspace, version, at, actor, document
from handraise.policies
where workspace = :workspace and (:before::int is null or version < :before::int)
order by version desc
limit :limit;

-- name: put_policy
-- Store the next version, if `:expected` is the latest: of several at once, one gets a row.
insert into handraise.policies (workspace, version, at, actor, document)
select :workspace, :expected::int + 1, coalesce(:now::timestamptz, now()), :actor, :document::text::json
where :expected::int = coalesce(
    (select max(p.version) from handraise.policies as p where p.workspace = :workspace), 0
)
on conflict do nothing
returning workspace, version, at, actor, document;

-- name: rule_suspensions
-- The rules of a workspace that are suspended.
select workspace, rule, question_id, at, actor from handraise.rule_suspensions where workspace = :workspace order by at, rule;

-- name: lift_suspension
-- End the suspension of a rule.
delete from handraise.rule_suspensions where workspace = :workspace and rule = :rule returning rule;

-- name: stops
-- The stops of a workspace, the oldest first.
select workspace, id, agent, tool, why, at, actor from handraise.stops where workspace = :workspace order by at, id;

-- name: stop
-- Stop what is covered, unless the same is stopped already.
insert into handraise.stops (workspace, id, agent, tool, why, at, actor)
values (:workspace, :id, :agent, :tool, :why, coalesce(:now::timestamptz, now()), :actor)
on conflict do nothing
returning workspace, id, agent, tool, why, at, actor;

-- name: resume
-- End a stop.
delete from handraise.stops where workspace = :workspace and id = :id
returning workspace, id, agent, tool, why, at, actor;

-- name: quotas
-- The quotas of a workspace.
select agent, pending from handraise.quotas where workspace = :workspace order by agent;

-- name: lock_quotas
-- Make those who change the quotas of a workspace wait for each other until the end of their transactions.
select pg_advisory_xact_lock(hashtextextended(json_build_array(:workspace::text, 'quotas')::text, 0));

-- name: drop_quotas
-- Remove the quotas of a workspace.
delete from handraise.quotas where workspace = :workspace;

-- name: put_quota
-- Store a quota.
insert into handraise.quotas (workspace, agent, pending) values (:workspace, :agent, :pending::bigint);

-- name: count_waiting_checks
-- How many spot checks of a rule wait for people, counted up to a number.
select count(*) as waiting
from (
    select 1
    from handraise.inbox as i
    inner join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.main and q.ruling ->> 'checked' = :rule
    limit :limit::bigint
) as found;

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

-- name: standing_answers
-- A page of all standing answers of a workspace.
select * from handraise.standing_answers where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke_standing_answer
-- End a standing answer, unless it has ended before.
with ended as (
    update handraise.standing_answers
    set revoked_at = coalesce(:now::timestamptz, now()), revoked_by = :actor
    where workspace = :workspace and id = :standing and revoked_at is null
    returning *
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select revoked_at, workspace, question_id, 'revoked', :actor, jsonb_build_object('standing', id) from ended
)
select * from ended;

-- name: read_standing_answer
-- One standing answer.
select * from handraise.standing_answers where workspace = :workspace and id = :standing;

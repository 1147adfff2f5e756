-- Policies, suspensions, stops, quotas, and what people let stand.

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
select :workspace, :expected::int + 1, ${now}, :actor, :document::text::json
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
values (:workspace, :id, :agent, :tool, :why, ${now}, :actor)
on conflict do nothing
returning workspace, id, agent, tool, why, at, actor;

-- name: resume
-- End a stop.
delete from handraise.stops where workspace = :workspace and id = :id
returning workspace, id, agent, tool, why, at, actor;

-- name: quotas
-- The quotas of a workspace.
select agent, pending from handraise.quotas where workspace = :workspace order by agent;

-- name: lock_quotas (only PostgreSQL)
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
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.main and q.ruling ->> 'checked' = :rule
    limit :limit::bigint
) as found;

-- name: standing_answers
-- A page of all standing answers of a workspace.
select * from handraise.standing_answers where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke_standing_answer
-- End a standing answer, unless it has ended before, and store the event of it.
insert into handraise.events (at, workspace, question_id, kind, actor, data)
select ${now}, workspace, question_id, 'revoked', :actor, :record::text::jsonb
from handraise.standing_answers
where workspace = :workspace and id = :standing and revoked_at is null
${lock(for update)};
update handraise.standing_answers
set revoked_at = ${now}, revoked_by = :actor
where workspace = :workspace and id = :standing and revoked_at is null
returning *;

-- name: read_standing_answer
-- One standing answer.
select * from handraise.standing_answers where workspace = :workspace and id = :standing;

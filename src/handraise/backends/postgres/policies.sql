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

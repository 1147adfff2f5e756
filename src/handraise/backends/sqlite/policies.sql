-- The statements of policies in SQLite.

-- name: policy_versions
-- Versions of a policy, the latest first.
select workspace, version, at, actor, document
from policies
where workspace = :workspace and (:before is null or version < :before)
order by version desc
limit :limit;

-- name: put_policy
-- Store the next version, if `:expected` is the latest: of several at once, one gets a row.
insert into policies (workspace, version, at, actor, document)
select :workspace, :expected + 1, :now, :actor, :document
where :expected = coalesce((select max(version) from policies where workspace = :workspace), 0)
on conflict do nothing
returning workspace, version, at, actor, document;

-- name: rule_suspensions
-- The rules of a workspace that are suspended.
select workspace, rule, question_id, at, actor from rule_suspensions where workspace = :workspace order by at, rule;

-- name: lift_suspension
-- End the suspension of a rule.
delete from rule_suspensions where workspace = :workspace and rule = :rule returning rule;

-- name: stops
-- The stops of a workspace, the oldest first.
select workspace, id, agent, tool, why, at, actor from stops where workspace = :workspace order by at, id;

-- name: stop
-- Stop what is covered, unless the same is stopped already.
insert into stops (workspace, id, agent, tool, why, at, actor)
values (:workspace, :id, :agent, :tool, :why, :now, :actor)
on conflict do nothing
returning workspace, id, agent, tool, why, at, actor;

-- name: resume
-- End a stop.
delete from stops where workspace = :workspace and id = :id
returning workspace, id, agent, tool, why, at, actor;

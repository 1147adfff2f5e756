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

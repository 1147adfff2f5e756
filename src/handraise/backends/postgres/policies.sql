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

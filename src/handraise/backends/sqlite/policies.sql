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

-- name: quotas
-- The quotas of a workspace.
select agent, pending from quotas where workspace = :workspace order by agent;

-- name: quota_of
-- How many pending questions an agent may have: its own quota, else that of the workspace, else this one.
select coalesce(
    (select pending from quotas where workspace = :workspace and agent = :asker),
    (select pending from quotas where workspace = :workspace and agent = ''),
    :quota
) as quota;

-- name: lock_quotas
-- Nothing to do.

-- name: drop_quotas
-- Remove the quotas of a workspace.
delete from quotas where workspace = :workspace;

-- name: put_quota
-- Store a quota.
insert into quotas (workspace, agent, pending) values (:workspace, :agent, :pending);

-- name: count_waiting_checks
-- How many spot checks of a rule wait for people, counted up to a number.
select count(*) as waiting
from (
    select 1
    from inbox as i
    inner join questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.main and q.ruling ->> '$.checked' = :rule
    limit :limit
) as found;

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

-- name: standing_answers
-- A page of all standing answers of a workspace.
select * from standing_answers where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke_standing_answer
-- End a standing answer, unless it has ended before.
insert into events (workspace, question_id, kind, at, actor, data)
select workspace, question_id, 'revoked', :now, :actor, json_object('standing', id)
from standing_answers
where workspace = :workspace and id = :standing and revoked_at is null;
update standing_answers
set revoked_at = :now, revoked_by = :actor
where workspace = :workspace and id = :standing and revoked_at is null
returning *;

-- name: read_standing_answer
-- One standing answer.
select * from standing_answers where workspace = :workspace and id = :standing;

-- oldest release: 0.1.0
-- How urgent each pending question is, in an order that indexes have: escalated first, then by expiry, by risk, and by its
-- id, which is by its age. `likeness` is the same for questions of one asker that are equal; null is like no other.

create function handraise.urgency(expires_at timestamptz, form json, is_escalated boolean) returns bigint
    language sql stable parallel safe
    return
        case when is_escalated then 0 else 1125899906842624 end
        + 4 * case when expires_at is null then 1099511627776 else floor(extract(epoch from expires_at))::bigint end
        + case
            when form ->> 'kind' <> 'approval' then 3
            when form ->> 'risk' = 'high' then 0
            when form ->> 'risk' = 'low' then 2
            else 1
        end;

-- The default is what is neither escalated nor an approval, and never expires: for a release that does not know the column.
alter table handraise.inbox
    add column urgency bigint not null default 1130297953353731,
    add column likeness bigint;

-- Inside the walls nobody sees the rows of all workspaces, not even the owner.
alter table handraise.inbox no force row level security;
alter table handraise.questions no force row level security;

update handraise.inbox as i
set urgency = handraise.urgency(
    q.expires_at, q.form,
    exists (
        select
        from jsonb_array_elements(q.steps) with ordinality as s (step, place)
        where s.place <= q.steps_taken and s.step ->> 'do' = 'escalate'
    )
)
from handraise.questions as q
where q.workspace = i.workspace and q.id = i.question_id;

alter table handraise.inbox force row level security;
alter table handraise.questions force row level security;

create index inbox_by_urgency on handraise.inbox (workspace, recipient, urgency, question_id) where open;
create index inbox_all_by_urgency on handraise.inbox (workspace, urgency, question_id) where main;

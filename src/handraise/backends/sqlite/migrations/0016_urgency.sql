-- oldest release: 0.1.0
-- How urgent each pending question is, in an order that indexes have: escalated first, then by expiry, by risk, and by its
-- id, which is by its age. `likeness` is the same for questions of one asker that are equal; null is like no other.
-- The default is what is neither escalated nor an approval, and never expires: for a release that does not know the column.
alter table inbox add column urgency integer not null default 1130297953353731;
alter table inbox add column likeness integer;

update inbox
set urgency = (
    select
        case
            when exists (
                select 1 from json_each(q.steps) as s where s.key < q.steps_taken and s.value ->> 'do' = 'escalate'
            ) then 0
            else 1125899906842624
        end
        + 4 * coalesce(q.expires_at / 1000000, 1099511627776)
        + case
            when q.form ->> '$.kind' <> 'approval' then 3
            when q.form ->> '$.risk' = 'high' then 0
            when q.form ->> '$.risk' = 'low' then 2
            else 1
        end
    from questions as q
    where q.workspace = inbox.workspace and q.id = inbox.question_id
);

create index inbox_by_urgency on inbox (workspace, recipient, urgency, question_id) where open;
create index inbox_all_by_urgency on inbox (workspace, urgency, question_id) where main;

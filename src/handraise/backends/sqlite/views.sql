-- The statements of views of pending questions. The numbers are those of `handraise.model.urgency`: 2^51 is added while it
-- is the asker's turn, 2^50 unless it was escalated, and 2^49 unless it was escalated or is of high risk.

-- name: view
-- The next places of a view along one walk: of a person under each name the person answers to, or of a whole workspace.
select distinct i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation, :now as now
from inbox as i
where i.workspace = :workspace
    and case
        when :person is null then i.main
        else i.open and i.recipient in (select value from json_each(:principals)) and i.asker <> :person
            and exists (select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now) = :aside
    end
    and (:kind is null or i.kind = :kind)
    and (:risk is null or i.kind = 'approval' and i.urgency % 4 = :risk)
    and (:tool is null or i.tool = :tool)
    and (:asker is null or i.asker = :asker)
    and (:conversation is null or i.conversation = :conversation)
    and (:expires_within is null or i.urgency % 562949953421312 / 4 <= (:now + :expires_within) / 1000000)
    and (:older_than is null or i.asked_at <= :now - :older_than)
    and case :view
        when 'urgent' then i.urgency < 2251799813685248 and (
            i.urgency < 1125899906842624
            or i.urgency % 4 = 0
            or i.urgency % 562949953421312 / 4 <= (:now + :soon) / 1000000
        )
        when 'approvals' then i.kind = 'approval'
        when 'mine' then i.recipient = :person or coalesce(i.taken_by = :person and i.taken_until > :now, 0)
        when 'vote_missing' then i.takes_votes and i.urgency < 2251799813685248 and not exists (
            select 1 from questions as q, json_each(q.votes) as v
            where q.workspace = i.workspace and q.id = i.question_id and v.key = :person
        )
        when 'agents_turn' then i.urgency >= 2251799813685248
        else 1
    end
    and case :order
        when 'urgency' then (i.urgency, i.question_id) > (:rank, :after) and i.urgency < :until
        when 'expiry' then (i.urgency % 562949953421312, i.question_id) > (:rank, :after)
        when 'age' then i.question_id > :after
        else :after = '' or i.question_id < :after
    end
order by
    case when :order = 'newest' then i.question_id end desc,
    case :order when 'urgency' then i.urgency when 'expiry' then i.urgency % 562949953421312 else 0 end,
    i.question_id
limit :limit;

-- name: count_views
-- How many questions a person has in each view, under each name the person answers to.
with seen as (
    select i.*, exists (select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now) as is_aside
    from inbox as i
    where i.workspace = :workspace and i.recipient in (select value from json_each(:principals)) and i.open
        and i.asker <> :person
    order by i.urgency, i.question_id
    limit :scanned
),
placed as (
    select i.question_id, v.value as view, case v.value
        when 'waiting' then not i.is_aside
        when 'snoozed' then i.is_aside
        else not i.is_aside and case v.value
            when 'urgent' then i.urgency < 2251799813685248 and (
                i.urgency < 1125899906842624
                or i.urgency % 4 = 0
                or i.urgency % 562949953421312 / 4 <= (:now + :soon) / 1000000
            )
            when 'approvals' then i.kind = 'approval'
            when 'mine' then i.recipient = :person or coalesce(i.taken_by = :person and i.taken_until > :now, 0)
            when 'vote_missing' then i.takes_votes and i.urgency < 2251799813685248 and not exists (
                select 1 from questions as q, json_each(q.votes) as v
                where q.workspace = i.workspace and q.id = i.question_id and v.key = :person
            )
            when 'agents_turn' then i.urgency >= 2251799813685248
        end
    end as fits
    from seen as i, json_each('["waiting", "urgent", "approvals", "mine", "vote_missing", "agents_turn", "snoozed"]') as v
)
select view, count(distinct question_id) as number, (select count(*) from seen) >= :scanned as more
from placed
where fits
group by view;

-- The statements of the PostgreSQL store. `:now` is null in production: the clock of the database is used.

-- name: due_workspaces
-- Some of the workspaces in which a step is due, or a question that nobody waits for.
select due_workspaces as workspace from handraise.due_workspaces(coalesce(:now::timestamptz, now()), :at_most);

-- name: writers
-- The transactions that write to questions now. A statement takes its lock before its snapshot of the database, so one
-- that is not among them will see what is committed by now.
select coalesce(array_agg(distinct l.virtualtransaction), '{}') as writers
from pg_locks as l
where l.locktype = 'relation' and l.relation = 'handraise.questions'::regclass
    -- A row share lock is that of a transaction that has locked questions, and writes what it decides.
    and l.mode in ('RowShareLock', 'RowExclusiveLock')
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.pid <> pg_backend_pid();

-- name: remove_settled (may take long, writes)
-- Remove what was settled longer ago than it is kept, by the rule of its workspace, else by this one; null is forever. This
-- looks at the next `:looked` events after a place, and returns the next place, without a workspace at the end.
select removed, workspace, transaction::text, number
from handraise.remove_settled(
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()) - :keep::interval, :looked, :workspace,
    :transaction::text::xid8, :number::bigint
);

-- name: pending_all
-- A page of everything pending in a workspace: the walk along the index first, then only its rows.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.question_id > :after
    order by i.question_id
    limit :limit
)
select q.*, coalesce(:now::timestamptz, now()) as now
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_asker
-- A page of what one asker has pending.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.asker = :asker and i.question_id > :after
    order by i.question_id
    limit :limit
)
select q.*, coalesce(:now::timestamptz, now()) as now
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_conversation
-- A page of what is pending in one conversation, also narrowed to an asker or to a person's own names.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.conversation = :conversation and i.question_id > :after
        and (:asker::text is null or i.asker = :asker)
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.question_id
    limit :limit
)
select q.*, coalesce(:now::timestamptz, now()) as now
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_recipient
-- A page of an inbox: one short walk along the index for each name the person answers to, then the first
-- of all. A question that reaches a person under several names is shown once.
with page as materialized (
    select distinct walk.question_id
    from unnest(:principals::text[]) as p (name),
        lateral (
            select i.question_id
            from handraise.inbox as i
            where i.workspace = :workspace and i.recipient = p.name and i.open and i.question_id > :after
                and i.asker <> :person
                and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside
                and (:asker::text is null or i.asker = :asker)
            order by i.question_id
            limit :limit
        ) as walk
    order by walk.question_id
    limit :limit
)
select q.*, coalesce(:now::timestamptz, now()) as now
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: urgent_all
-- The next places of everything pending in a workspace, along the walks of `handraise.model.urgency`, each with its own
-- limit: they are merged afterwards.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: urgent_by_recipient
-- The same of an inbox: one short walk along the index for each name the person answers to, then the first of all.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select distinct walk.question_id as id, walk.urgency, walk.likeness, walk.asker, walk.conversation
    from unnest(:principals::text[]) as p (name),
        lateral (
            select i.question_id, i.urgency, i.likeness, i.asker, i.conversation
            from handraise.inbox as i
            where i.workspace = :workspace and i.recipient = p.name and i.open
                and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
                and i.asker <> :person
                and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside
            order by i.urgency, i.question_id
            limit :limit
        ) as walk
    order by walk.urgency, walk.question_id
    limit :limit
) as page;

-- name: urgent_by_asker
-- The same of one asker, also narrowed to a person's own names. All its pending questions are sorted.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.asker = :asker
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: urgent_by_conversation
-- The same of one conversation, also narrowed to an asker.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.conversation = :conversation
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
        and (:asker::text is null or i.asker = :asker)
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: settled
-- A page of what has ended, newest first: a walk back over up to `:looked` events, and from each that ended a question
-- to its row. If that does not fill the page, `edge` is the last event that was read, in a separate row if necessary.
with page as materialized (
    select e.transaction, e.number, q.*
    from (
        select w.transaction, w.number, w.question_id, w.kind, w.at
        from handraise.events as w
        where w.workspace = :workspace
            and (w.transaction, w.number) < (:transaction::bigint::text::xid8, :number::bigint)
        order by w.transaction desc, w.number desc
        limit :looked::bigint
    ) as e
    -- With a limit, so that each row is looked up separately: there is no gain in reading them all.
    cross join lateral (
        select s.*
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id
            and (:conversation::text is null or s.conversation = :conversation)
            and (:asker::text is null or s.asker = :asker)
            and (
                :decision::text is null
                or s.form ->> 'kind' = 'approval' and s.outcome -> 'value' ->> 'decision' = :decision
            )
            and (:settled_by::text is null or s.outcome ->> 'by' = :settled_by or s.votes ? :settled_by)
            and (
                :ways::text[] is null
                or case when s.status = 'answered' then coalesce(s.outcome ->> 'source', 'person') else s.status end = any (:ways)
            )
            and (
                :channel::text is null
                or coalesce(case when s.status in ('answered', 'declined', 'returned') then s.outcome ->> 'channel' end, '') = :channel
            )
            and (:tool::text is null or s.form ->> 'kind' = 'approval' and s.form -> 'action' ->> 'tool' = :tool)
            and (:risk::text is null or s.form ->> 'kind' = 'approval' and coalesce(s.form ->> 'risk', 'medium') = :risk)
            and (:group_name::text is null or s.recipients ? :group_name)
            and (:took_at_least::interval is null or s.settled_at >= s.asked_at + :took_at_least)
            and (:took_less::interval is null or s.settled_at < s.asked_at + :took_less)
            and (not :is_late::boolean or s.settled_at >= s.asked_at + make_interval(secs => (s.steps -> 0 ->> 'after')::float8))
            and (not :has_failed::boolean or s.form ->> 'kind' = 'approval' and s.report ->> 'ok' = 'false')
            and (
                :person::text is null
                or s.outcome ->> 'by' = :person
                or s.votes ? :person
                or s.asker <> :person and (
                    s.recipients = '[]'
                    or s.recipients ?| :principals::text[]
                    or s.added ?| :principals::text[]
                    or exists (
                        select
                        from jsonb_array_elements(s.steps) with ordinality as t (step, place)
                        where t.place <= s.steps_taken and t.step -> 'to' ?| :principals::text[]
                    )
                )
            )
        limit 1
    ) as q
    where e.kind = any (:kinds::text[])
        and (:since::timestamptz is null or e.at >= :since)
        and (:until::timestamptz is null or e.at < :until)
    order by e.transaction desc, e.number desc
    limit :limit::bigint
),
edge as (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) < (:transaction::bigint::text::xid8, :number::bigint)
        and (select count(*) from page) < :limit::bigint
    order by w.transaction desc, w.number desc
    offset :looked::bigint - 1
    limit 1
)
select
    page.*, coalesce(:now::timestamptz, now()) as now, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction desc, page.number desc;

-- name: settled_rows
-- What has ended among the next `:looked` events after a cursor, oldest first, in the columns of an export. `edge` is the
-- last event that was read, in a separate row if nothing has ended; it is null at the end.
with walked as materialized (
    select w.transaction, w.number, w.question_id, w.kind, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) > (:transaction::bigint::text::xid8, :number::bigint)
    order by w.transaction, w.number
    limit :looked::bigint
),
page as materialized (
    select
        e.transaction, e.number,
        q.id, q.asker, q.conversation, q.topic, q.tool_call, q.trace, q.prompt, q.form, q.recipients, q.status, q.outcome,
        q.votes, q.ruling, q.report, q.asked_at, q.settled_at, q.consumed_at, q.taken_back_at
    from walked as e
    -- With a limit, so that each row is looked up separately: there is no gain in reading them all.
    cross join lateral (
        select s.*
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id and s.settled_at is not null
        limit 1
    ) as q
    where e.kind = any (:kinds::text[])
        and (:since::timestamptz is null or e.at >= :since)
        and (:until::timestamptz is null or e.at < :until)
),
edge as (
    select e.transaction, e.number, e.at
    from walked as e
    order by e.transaction, e.number
    offset :looked::bigint - 1
    limit 1
)
select
    page.id, page.asker, page.conversation, page.topic, page.tool_call, page.trace, page.prompt, page.form, page.recipients,
    page.status, page.outcome, page.votes, page.ruling, page.report, page.asked_at, page.settled_at, page.consumed_at,
    page.taken_back_at, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction, page.number;

-- name: first_event_at
-- The first event of a workspace at or after an instant, if there is one. Events are in the order of their times, so
-- halving finds it: first its transaction, then its number in there. Each step reads one entry of the index.
with recursive by_transaction (low, high) as (
    select
        -1::bigint,
        (
            select w.transaction::text::bigint
            from handraise.events as w
            where w.workspace = :workspace
            order by w.transaction desc, w.number desc
            limit 1
        )
    union all
    select case when e.at >= :at::timestamptz then t.low else m.middle end, case when e.at >= :at::timestamptz then m.middle else t.high end
    from by_transaction as t
    -- Cast apart: with row-level security, an index is searched only for what needs no cast there.
    cross join lateral (
        select (t.low + t.high) / 2 as middle, ((t.low + t.high) / 2)::text::xid8 as transaction offset 0
    ) as m
    left join lateral (
        select w.at
        from handraise.events as w
        where w.workspace = :workspace and w.transaction <= m.transaction
        order by w.transaction desc, w.number desc
        limit 1
    ) as e on true
    where t.high - t.low > 1
),
transaction as materialized (
    select t.high::text::xid8 as id from by_transaction as t where t.high - t.low <= 1 limit 1
),
by_number (transaction, low, high) as (
    select t.id, 0::bigint, newest.number
    from transaction as t
    cross join lateral (
        select w.number
        from handraise.events as w
        where w.workspace = :workspace and w.transaction = t.id
        order by w.transaction desc, w.number desc
        limit 1
    ) as newest
    union all
    select
        n.transaction,
        case when e.at >= :at::timestamptz then n.low else m.middle end,
        case when e.at >= :at::timestamptz then m.middle else n.high end
    from by_number as n
    cross join lateral (select (n.low + n.high) / 2 as middle offset 0) as m
    left join lateral (
        select w.at
        from handraise.events as w
        where w.workspace = :workspace and w.transaction = n.transaction and w.number <= m.middle
        order by w.transaction desc, w.number desc
        limit 1
    ) as e on true
    where n.high - n.low > 1
)
select found.transaction, found.number
from by_number as n
cross join lateral (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace and w.transaction = n.transaction and w.number <= n.high
    order by w.transaction desc, w.number desc
    limit 1
) as found
where n.high - n.low <= 1 and found.at >= :at::timestamptz
limit 1;

-- name: endings
-- How questions ended since an instant, newest first, in few words. The walk and its edge are as in `settled`.
with page as materialized (
    select e.transaction, e.number, q.*
    from (
        select w.transaction, w.number, w.question_id, w.kind, w.at
        from handraise.events as w
        where w.workspace = :workspace
            and (w.transaction, w.number) < (:transaction::bigint::text::xid8, :number::bigint)
        order by w.transaction desc, w.number desc
        limit :looked::bigint
    ) as e
    cross join lateral (
        select
            s.id, s.asker, s.status, s.asked_at, s.settled_at, s.recipients,
            s.form ->> 'kind' as form_kind,
            s.outcome ->> 'by' as settled_by,
            case when s.status = 'answered' then coalesce(s.outcome ->> 'source', 'person') end as source,
            case when s.status in ('answered', 'declined', 'returned') then s.outcome ->> 'channel' end as channel,
            case
                when s.form ->> 'kind' = 'approval' and s.status = 'answered' and s.outcome -> 'source' is null
                    then s.outcome -> 'value' ->> 'decision' = 'approve'
            end as approved,
            case when s.form ->> 'kind' = 'approval' then s.form -> 'action' ->> 'tool' end as tool,
            case when s.form ->> 'kind' = 'approval' then coalesce(s.form ->> 'risk', 'medium') end as risk,
            (select jsonb_agg(v.name) from jsonb_object_keys(s.votes) as v (name)) as voters,
            (s.steps -> 0 ->> 'after')::float8 as promised_seconds,
            s.report ->> 'ok' = 'false' as failed
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id
        limit 1
    ) as q
    where e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned') and e.at >= :since::timestamptz
    order by e.transaction desc, e.number desc
    limit :limit::bigint
),
edge as (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) < (:transaction::bigint::text::xid8, :number::bigint)
        and (select count(*) from page) < :limit::bigint
    order by w.transaction desc, w.number desc
    offset :looked::bigint - 1
    limit 1
)
select page.*, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction desc, page.number desc;

-- name: settled_since
-- Which questions of a workspace were settled since a mark, and the next mark: the oldest transaction still running. What
-- commits later is of this transaction or a later one.
select (select handraise.feed_edge())::text as mark, e.question_id
from (select 1) as always
left join lateral (
    select question_id
    from handraise.events
    where workspace = :workspace
        and transaction >= :mark::text::xid8
        and question_id <> ''
        and kind = any (:kinds::text[])
    limit :limit
) as e on true;

-- name: search_workspace_events
-- Those of them that are searched for, the newest first.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace
    and question_id = ''
    and (transaction, number) < (:transaction::bigint::text::xid8, :number::bigint)
    and transaction < (select handraise.feed_edge())
    and (:person::text is null or actor = :person or data -> 'people' ? :person)
    and (:kind::text is null or kind = :kind)
    and (:since::timestamptz is null or at >= :since)
    and (:until::timestamptz is null or at < :until)
order by events.transaction desc, events.number desc
limit :limit;

-- name: feed_end
-- The last event that the feed of a workspace returns. Not the edge itself: after a crash, the numbers of transactions
-- that left nothing on the disk are used again, and a reader that began to follow at the edge would miss their events.
select transaction::text, number
from handraise.events
where workspace = :workspace and transaction < (select handraise.feed_edge())
order by events.transaction desc, events.number desc
limit 1;

-- name: queue_stats (may take long)
-- How many questions and deliveries wait, for how long, how many askers are at the quota, and what nobody can answer.
select pending, deliveries, oldest_due, askers_at_quota, unanswerable
from handraise.queue_stats(coalesce(:now::timestamptz, now()), :ages::float8[], :quota::bigint);

-- name: queue_stats_of_workspace (may take long)
-- How many questions wait in one workspace.
with aged as materialized (
    select extract(epoch from coalesce(:now::timestamptz, now()) - q.asked_at)::float8 as age
    from (
        select i.question_id from handraise.inbox as i where i.workspace = :workspace and i.main limit 100000
    ) as counted
    cross join lateral (
        select s.asked_at
        from handraise.questions as s
        where s.workspace = :workspace and s.id = counted.question_id
        limit 1
    ) as q
)
select array(
    select (select count(*) from aged where aged.age <= a.age)
    from unnest(:ages::float8[]) with ordinality as a (age, place)
    order by a.place
) as pending;

-- name: announce_listener
-- Say that this process listens, and whether for feeds too; it must say so again before the others
-- forget it.
insert into handraise.listeners (process, seen_at, feeds) values (:listener, now(), :feeds)
on conflict (process) do update set seen_at = excluded.seen_at;

-- name: forget_listener
-- Say that a listener has gone, and forget those that died without saying so.
delete from handraise.listeners where process = :listener or seen_at < now() - interval '1 hour';

-- name: notify
-- Wake the other processes; each hint is sent only if a process that wants it could be listening.
select hint.feed, pg_notify('handraise', hint.payload)
from (
    select payload, false as feed from unnest(:payloads::text[]) as t (payload)
    union all
    select payload, true from unnest(:feeds::text[]) as t (payload)
) as hint
where exists (
    select from handraise.listeners
    where process <> all (:listeners::text[]) and seen_at > now() - interval '30 seconds'
        and (feeds or not hint.feed)
);

-- name: settings
-- The settings that durability depends on.
select name, setting from pg_settings
where name in (
    'fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names', 'server_version', 'in_hot_standby'
);

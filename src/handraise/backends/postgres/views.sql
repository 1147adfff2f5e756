-- The statements of views of pending questions. `:now` is null in production: the clock of the database is used. Each
-- looks at a limited number of rows of the inbox, in an order that has an index, and then at what the view wants.

-- name: view_by_recipient
-- The next places of a person's view along each walk, under each name the person answers to.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as walk (rank, after, until)
cross join lateral (
    select distinct
        (w.i).question_id as id, (w.i).urgency, (w.i).likeness, (w.i).asker, (w.i).conversation,
        case when :order::text = 'newest' then (w.i).question_id end as newest,
        case :order::text when 'urgency' then (w.i).urgency when 'expiry' then (w.i).urgency % 562949953421312 else 0 end as rank
    from unnest(:principals::text[]) as p (name)
    cross join lateral (
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.recipient = p.name and i.open and :order::text = 'urgency'
                    and (i.urgency, i.question_id) > (walk.rank, walk.after) and i.urgency < walk.until
                order by i.urgency, i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.recipient = p.name and i.open and :order::text = 'expiry'
                order by i.urgency, i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.recipient = p.name and i.open and :order::text = 'age'
                    and i.question_id > walk.after
                order by i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.recipient = p.name and i.open and :order::text = 'newest'
                    and (walk.after = '' or i.question_id < walk.after)
                order by i.question_id desc
                limit :scanned::bigint
            )
    ) as w (i)
    where (w.i).asker <> :person
        and handraise.is_aside((w.i).aside, :person, coalesce(:now::timestamptz, now())) = :aside
        and
        (:kind::text is null or (w.i).kind = :kind)
        and (:risk::integer is null or (w.i).kind = 'approval' and (w.i).urgency % 4 = :risk)
        and (:tool::text is null or (w.i).tool = :tool)
        and (:asker::text is null or (w.i).asker = :asker)
        and (:conversation::text is null or (w.i).conversation = :conversation)
        and (
            :expires_within::interval is null
            or (w.i).urgency % 562949953421312 / 4
                <= extract(epoch from coalesce(:now::timestamptz, now()) + :expires_within::interval)
        )
        and (
            :older_than::interval is null or (w.i).asked_at <= coalesce(:now::timestamptz, now()) - :older_than::interval
        )
        and handraise.is_in_view(w.i, :view::text, :person::text, coalesce(:now::timestamptz, now()), :soon::interval)
        and (:view::text is distinct from 'vote_missing' or not handraise.has_voted(w.i, :person))
        and (
            :order::text <> 'expiry'
            or ((w.i).urgency % 562949953421312, (w.i).question_id) > (walk.rank, walk.after)
        )
    order by newest desc nulls last, rank, id
    limit :limit
) as page;

-- name: view_all
-- The same of a whole workspace.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as walk (rank, after, until)
cross join lateral (
    select distinct
        (w.i).question_id as id, (w.i).urgency, (w.i).likeness, (w.i).asker, (w.i).conversation,
        case when :order::text = 'newest' then (w.i).question_id end as newest,
        case :order::text when 'urgency' then (w.i).urgency when 'expiry' then (w.i).urgency % 562949953421312 else 0 end as rank
    from (
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.main and :order::text = 'urgency'
                    and (i.urgency, i.question_id) > (walk.rank, walk.after) and i.urgency < walk.until
                order by i.urgency, i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.main and :order::text = 'expiry'
                order by i.urgency, i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.main and :order::text = 'age' and i.question_id > walk.after
                order by i.question_id
                limit :scanned::bigint
            )
            union all
            (
                select i
                from handraise.inbox as i
                where i.workspace = :workspace and i.main and :order::text = 'newest'
                    and (walk.after = '' or i.question_id < walk.after)
                order by i.question_id desc
                limit :scanned::bigint
            )
    ) as w (i)
    where
        (:kind::text is null or (w.i).kind = :kind)
        and (:risk::integer is null or (w.i).kind = 'approval' and (w.i).urgency % 4 = :risk)
        and (:tool::text is null or (w.i).tool = :tool)
        and (:asker::text is null or (w.i).asker = :asker)
        and (:conversation::text is null or (w.i).conversation = :conversation)
        and (
            :expires_within::interval is null
            or (w.i).urgency % 562949953421312 / 4
                <= extract(epoch from coalesce(:now::timestamptz, now()) + :expires_within::interval)
        )
        and (
            :older_than::interval is null or (w.i).asked_at <= coalesce(:now::timestamptz, now()) - :older_than::interval
        )
        and handraise.is_in_view(w.i, :view::text, :person::text, coalesce(:now::timestamptz, now()), :soon::interval)
        and (:view::text is distinct from 'vote_missing' or not handraise.has_voted(w.i, :person))
        and (
            :order::text <> 'expiry'
            or ((w.i).urgency % 562949953421312, (w.i).question_id) > (walk.rank, walk.after)
        )
    order by newest desc nulls last, rank, id
    limit :limit
) as page;

-- name: count_views
-- How many questions a person has in each view, of the most urgent under each name the person answers to.
with seen as materialized (
    select
        w.i, count(*) over (partition by p.name) as looked,
        handraise.is_aside((w.i).aside, :person, coalesce(:now::timestamptz, now())) as is_aside
    from unnest(:principals::text[]) as p (name)
    cross join lateral (
        select i
        from handraise.inbox as i
        where i.workspace = :workspace and i.recipient = p.name and i.open and i.asker <> :person
        order by i.urgency, i.question_id
        limit :scanned::bigint
    ) as w (i)
)
select
    count(distinct (s.i).question_id) filter (where not s.is_aside) as waiting,
    count(distinct (s.i).question_id) filter (where s.is_aside) as snoozed,
    count(distinct (s.i).question_id) filter (
        where not s.is_aside
            and handraise.is_in_view(s.i, 'urgent', :person, coalesce(:now::timestamptz, now()), :soon::interval)
    ) as urgent,
    count(distinct (s.i).question_id) filter (
        where not s.is_aside
            and handraise.is_in_view(s.i, 'approvals', :person, coalesce(:now::timestamptz, now()), :soon::interval)
    ) as approvals,
    count(distinct (s.i).question_id) filter (
        where not s.is_aside
            and handraise.is_in_view(s.i, 'mine', :person, coalesce(:now::timestamptz, now()), :soon::interval)
    ) as mine,
    count(distinct (s.i).question_id) filter (
        where not s.is_aside
            and handraise.is_in_view(s.i, 'vote_missing', :person, coalesce(:now::timestamptz, now()), :soon::interval)
            and not handraise.has_voted(s.i, :person)
    ) as vote_missing,
    count(distinct (s.i).question_id) filter (
        where not s.is_aside
            and handraise.is_in_view(s.i, 'agents_turn', :person, coalesce(:now::timestamptz, now()), :soon::interval)
    ) as agents_turn,
    coalesce(max(s.looked) >= :scanned::bigint, false) as more
from seen as s;

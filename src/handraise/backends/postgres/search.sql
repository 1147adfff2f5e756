-- The statements of full-text search. `:now` is null in production: the clock of the database is used.

-- name: search
-- A page of what has these words, the newest first: up to `:looked` candidates of the index, and from each to its row,
-- which says who may see it. If there may be more candidates, `edge` is the last one.
with candidate as materialized (
    select f.id, f.place
    from handraise.find_words(:workspace::text, :query::text::tsquery, :after::text, :looked::integer, :walked::integer)
        with ordinality as f (id, place)
),
page as materialized (
    select candidate.place, q.*
    from candidate
    cross join lateral (
        select s.*
        from handraise.questions as s
        where s.workspace = :workspace and s.id = candidate.id
            and (:conversation::text is null or s.conversation = :conversation)
            and (:asker::text is null or s.asker = :asker)
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
    order by candidate.place
    limit :limit::bigint
),
edge as (
    select candidate.id as edge from candidate where candidate.place = :looked::integer
)
select page.*, edge.edge, coalesce(:now::timestamptz, now()) as now
from (select) as one
left join page on true
left join edge on true
order by page.place;

-- name: unindexed
-- Some of the workspaces whose newest events are not in the index.
select unindexed_workspaces as workspace from handraise.unindexed_workspaces(:at_most);

-- name: next_to_index
-- The next events of a workspace, with the questions of those that change words, or who may see a question. Events of
-- transactions that are not older than every running one are not final: others may still come before them.
select
    p.transaction::text as after_transaction, p.number as after_number,
    e.transaction::text, e.number, e.id, e.is_final
from (select) as one
left join handraise.search_progress as p on p.workspace = :workspace
left join lateral (
    select
        w.transaction, w.number, w.transaction < (select handraise.feed_edge()) as is_final,
        case
            when w.kind in (
                'asked', 'voted', 'reported', 'brought_in', 'handed_over', 'answered', 'declined', 'expired', 'withdrawn',
                'exhausted', 'returned'
            ) then w.question_id
        end as id
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) > (coalesce(p.transaction, '0'::xid8), coalesce(p.number, -9223372036854775808))
    order by w.transaction, w.number
    limit :limit
) as e on true
order by e.transaction, e.number;

-- name: put_in_index (may take long, writes)
-- Put questions into the index.
select handraise.index_questions(
    :workspace, :after_transaction::text::xid8, :after_number, :transaction::text::xid8, :number, :ids::text[],
    :words::text[]
) as done;

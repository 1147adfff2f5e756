-- The statements of full-text search.

-- name: search
-- A page of what has these words, the newest first. The row of each question says who may see it.
select q.*, exists (
    select 1 from inbox as d where d.workspace = q.workspace and d.question_id = q.id and d.due_at <= :now
) as overdue
from search_words as f
cross join search_entries as x on x.number = f.rowid
cross join questions as q on q.workspace = x.workspace and q.id = x.question_id
where f.search_words match :query and x.workspace = :workspace and (:after is null or x.question_id < :after)
    and (:conversation is null or q.conversation = :conversation)
    and (:asker is null or q.asker = :asker)
    and (
        :person is null
        or q.outcome ->> '$.by' = :person
        or exists (select 1 from json_each(q.votes) as v where v.key = :person)
        or q.asker <> :person and (
            q.recipients = '[]'
            or exists (
                select 1
                from (select value from json_each(q.recipients) union all select value from json_each(q.added)) as r
                join json_each(:principals) as p on p.value = r.value
            )
            or exists (
                select 1
                from json_each(q.steps) as s, json_each(s.value, '$.to') as t
                join json_each(:principals) as p on p.value = t.value
                where s.key < q.steps_taken
            )
        )
    )
order by x.question_id desc
limit :limit;

-- name: unindexed
-- Some of the workspaces whose newest events are not in the index.
with recursive walk (workspace) as (
    select min(workspace) from events
    union all
    select (select min(e.workspace) from events as e where e.workspace > walk.workspace)
    from walk
    where walk.workspace is not null
)
select walk.workspace
from walk
left join search_progress as p on p.workspace = walk.workspace
where walk.workspace is not null and walk.workspace not in (select i.workspace from imports as i)
    and exists (
        select 1
        from events as e
        where e.workspace = walk.workspace
            and (e."transaction", e.place) > (coalesce(p."transaction", 0), coalesce(p.number, 0))
    )
limit :limit;

-- name: index_cursor
-- The event up to which a workspace is in the index.
select "transaction", number from search_progress where workspace = :workspace;

-- name: next_to_index
-- The next events of a workspace, with the questions of those that change words, or who may see a question.
select
    "transaction",
    number,
    case
        when kind in (
            'asked', 'voted', 'reported', 'brought_in', 'handed_over', 'answered', 'declined', 'expired', 'withdrawn',
            'exhausted', 'returned'
        ) then question_id
    end as id
from events indexed by events_by_workspace
where workspace = :workspace and ("transaction", place) > (:after_transaction, :after_number)
order by "transaction", place
limit :limit;

-- name: put_in_index
-- Put one question into the index, in place of what was there, if it still exists.
delete from search_words where rowid = (
    select number from search_entries where workspace = :workspace and question_id = :id
);
insert into search_entries (workspace, question_id)
select workspace, id from questions where workspace = :workspace and id = :id
on conflict do nothing;
insert into search_words (rowid, words, tags)
select number, :words, :tags from search_entries where workspace = :workspace and question_id = :id;

-- name: note_indexed
-- Note the event up to which a workspace is in the index.
insert into search_progress (workspace, "transaction", number) values (:workspace, :transaction, :number)
on conflict do update set "transaction" = excluded."transaction", number = excluded.number;

-- name: unindex
-- Take a question out of the index.
delete from search_entries where workspace = :workspace and question_id = :id;

-- name: merge_index
-- Write the index anew, without the words that were taken out of it.
insert into search_words (search_words) values ('optimize');

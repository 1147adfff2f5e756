-- What PostgreSQL does with files in its own way: functions of the schema remove them, in any workspace.

-- name: take_unused_files (may take long, writes)
-- Mark the files that nothing refers to, and return those whose bytes are to be deleted.
select f.place as workspace, f.name as key
from handraise.take_unused_files(
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()) - :unused_for::interval, :limit::int
) as f;

-- name: forget_file (writes)
-- Forget a file whose bytes are deleted.
select handraise.forget_file(:workspace, :key);

-- name: drop_blob (writes)
-- Delete the bytes of a file that is removed.
select handraise.drop_blob(:workspace, :key);

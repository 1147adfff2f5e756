-- What PostgreSQL does with the directory in its own way: functions of the schema see all workspaces.

-- name: forget (may take long, writes)
-- Forget what was over longer than `:older_than` ago.
select
    handraise.forget(coalesce(:now::timestamptz, now()) - :older_than::interval, :limit)
    + handraise.forget_question_links(coalesce(:now::timestamptz, now()) - :older_than::interval, :limit)
    as number;

-- name: workspaces_with_rotas
-- Some of the workspaces in which a group has a rota.
select workspaces_with_rotas as workspace from handraise.workspaces_with_rotas(:at_most);

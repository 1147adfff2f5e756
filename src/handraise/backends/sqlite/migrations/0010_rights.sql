-- oldest release: 0.1.0
-- Votes and grants are looked at again when they are used: what the directory gave, it can take away.

-- With whose right each vote was given: null is that of somebody whom the directory did not know, false one that only the
-- calling program vouched for, true the directory's own. It names also those whose votes were dropped.
alter table questions add column voters text;

-- The same for the giver of a grant, with the groups that were vouched for.
alter table grants add column giver_groups text;
alter table grants add column giver_backed integer;

-- Who may answer each question now; '*' is anyone.
create view audiences as
select q.workspace, q.id, '*' as name from questions as q where q.recipients = '[]'
union all
select q.workspace, q.id, r.value from questions as q, json_each(q.recipients) as r
union all
select q.workspace, q.id, t.value
from questions as q, json_each(q.steps) as s, json_each(s.value, '$.to') as t
where q.recipients <> '[]' and s.key < q.steps_taken;

-- The names under which the directory lets each of its people answer.
create view directory_names as
select p.workspace, p.id as person, p.id as name from people as p
union all
select p.workspace, p.id, '*' from people as p
union all
select m.workspace, m.person, 'group:' || m.group_name from members as m;

-- The names under which the giver of each grant may answer now: those that the directory gives them, if it gave them the
-- right; else those that were vouched for, as long as a directory that knew them still does.
create view givers as
select g.workspace, g.id as grant_id, d.name
from grants as g
join directory_names as d on d.workspace = g.workspace and d.person = g.granted_by
where g.giver_backed = 1
union all
select g.workspace, g.id, v.value
from grants as g, json_each(json_insert(coalesce(g.giver_groups, '[]'), '$[#]', g.granted_by, '$[#]', '*')) as v
where g.giver_backed is not 1
    and (
        g.giver_backed is null
        or exists (select 1 from people as p where p.workspace = g.workspace and p.id = g.granted_by)
    );

-- What is checked before a desk is trusted to keep workspaces apart.

-- name: role
-- The role this runs as, and how it would get around row-level security.
select
    quote_ident(r.rolname) as name,
    r.rolsuper or r.rolbypassrls as bypasses,
    case
        when r.rolsuper then 'is a superuser'
        when r.rolbypassrls then 'has BYPASSRLS'
        when o.owner is not null then format('owns tables, or is a member of %I, who does', o.owner)
    end as loophole,
    case
        when r.rolsuper then format('alter role %I nosuperuser', r.rolname)
        when r.rolbypassrls then format('alter role %I nobypassrls', r.rolname)
        when o.owner is not null then format('revoke %I from %I', o.owner, r.rolname)
    end as repair
from pg_roles as r
left join lateral (
    select pg_get_userbyid(c.relowner) as owner
    from pg_class as c
    where c.relnamespace = 'handraise'::regnamespace and pg_has_role(r.oid, c.relowner, 'member')
    limit 1
) as o on true
where r.rolname = current_user;

-- name: breaches
-- Tables with a workspace column that row-level security does not protect, or not from this role, and their repair.
select c.oid::regclass::text as name, b.loophole, b.repair
from pg_class as c
cross join lateral (
    select
        count(*) filter (
            where p.polname = 'workspace' and p.polcmd = '*'
                and pg_get_expr(p.polqual, p.polrelid) ~ wall.shape
                and pg_get_expr(p.polwithcheck, p.polrelid) ~ wall.shape
        ) as walls,
        string_agg(format('drop policy %I on %s', p.polname, c.oid::regclass), '; ')
            filter (where p.polname <> 'workspace') as drops
    from pg_policy as p
    cross join (
        values ('^\(workspace = \( *SELECT handraise\.workspace\(\)( AS workspace)?\)\)$')
    ) as wall (shape)
    where p.polrelid = c.oid and p.polpermissive and exists (
        select from unnest(p.polroles) as r (oid) where r.oid = 0 or pg_has_role(r.oid, 'usage')
    )
) as policy
cross join lateral (
    values
        (
            not c.relrowsecurity, 'has row-level security off',
            format('alter table %s enable row level security', c.oid::regclass)
        ),
        (
            not c.relforcerowsecurity, 'does not force row-level security',
            format('alter table %s force row level security', c.oid::regclass)
        ),
        (
            policy.walls = 0, 'has no policy for reading and writing',
            format(
                'create policy workspace on %s using (workspace = (select handraise.workspace())) '
                'with check (workspace = (select handraise.workspace()))',
                c.oid::regclass
            )
        ),
        (policy.drops is not null, 'has a policy that lets more through', policy.drops)
) as b (so, loophole, repair)
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and b.so and exists (
    select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'workspace'
)
order by name;

-- name: leaks
-- Tables whose rows are visible although no workspace is set.
select t.name
from (
    values
        ('questions', exists (select from handraise.questions)),
        ('archive', exists (select from handraise.archive)),
        ('archive_index', exists (select from handraise.archive_index)),
        ('inbox', exists (select from handraise.inbox)),
        ('events', exists (select from handraise.events)),
        ('grants', exists (select from handraise.grants)),
        ('agent_keys', exists (select from handraise.agent_keys)),
        ('people', exists (select from handraise.people)),
        ('calendars', exists (select from handraise.calendars)),
        ('members', exists (select from handraise.members)),
        ('sessions', exists (select from handraise.sessions)),
        ('passkeys', exists (select from handraise.passkeys)),
        ('passkey_nonces', exists (select from handraise.passkey_nonces)),
        ('saved_views', exists (select from handraise.saved_views)),
        ('links', exists (select from handraise.links)),
        ('question_links', exists (select from handraise.question_links)),
        ('requests', exists (select from handraise.requests)),
        ('addresses', exists (select from handraise.addresses)),
        ('routing', exists (select from handraise.routing)),
        ('policies', exists (select from handraise.policies)),
        ('rule_suspensions', exists (select from handraise.rule_suspensions)),
        ('standing_answers', exists (select from handraise.standing_answers)),
        ('stops', exists (select from handraise.stops)),
        ('files', exists (select from handraise.files)),
        ('file_references', exists (select from handraise.file_references)),
        ('blobs', exists (select from handraise.blobs)),
        ('search_entries', exists (select from handraise.search_entries)),
        ('search_progress', exists (select from handraise.search_progress)),
        ('outbox', exists (select from handraise.outbox)),
        ('deliveries', exists (select from handraise.deliveries)),
        ('seals', exists (select from handraise.seals)),
        ('salts', exists (select from handraise.salts)),
        ('removals', exists (select from handraise.removals)),
        ('retention', exists (select from handraise.retention)),
        ('holds', exists (select from handraise.holds)),
        ('placements', exists (select from handraise.placements)),
        ('homes', exists (select from handraise.homes))
) as t (name, seen)
where t.seen;

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
                and pg_get_expr(p.polqual, p.polrelid) = 'handraise.is_visible(workspace)'
                and pg_get_expr(p.polwithcheck, p.polrelid) = 'handraise.is_visible(workspace)'
        ) as walls,
        string_agg(format('drop policy %I on %s', p.polname, c.oid::regclass), '; ')
            filter (where p.polname <> 'workspace') as drops
    from pg_policy as p
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
                'create policy workspace on %s using (handraise.is_visible(workspace)) '
                'with check (handraise.is_visible(workspace))',
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
-- Tables whose rows are visible although no workspace is set. Only the first pages of each are read: it may be large, and all
-- of its rows should be hidden. A function that hides nothing is noticed in an empty database too.
select t.name
from (
    values
        ('questions', handraise.is_visible('') or handraise.is_visible('x') or exists (select from handraise.questions where ctid < '(16,0)')),
        ('archive', exists (select from handraise.archive where ctid < '(16,0)')),
        ('archive_index', exists (select from handraise.archive_index where ctid < '(16,0)')),
        ('imports', exists (select from handraise.imports where ctid < '(16,0)')),
        ('inbox', exists (select from handraise.inbox where ctid < '(16,0)')),
        ('events', exists (select from handraise.events where ctid < '(16,0)')),
        ('grants', exists (select from handraise.grants where ctid < '(16,0)')),
        ('agent_keys', exists (select from handraise.agent_keys where ctid < '(16,0)')),
        ('people', exists (select from handraise.people where ctid < '(16,0)')),
        ('calendars', exists (select from handraise.calendars where ctid < '(16,0)')),
        ('members', exists (select from handraise.members where ctid < '(16,0)')),
        ('sessions', exists (select from handraise.sessions where ctid < '(16,0)')),
        ('passkeys', exists (select from handraise.passkeys where ctid < '(16,0)')),
        ('passkey_nonces', exists (select from handraise.passkey_nonces where ctid < '(16,0)')),
        ('provisioned', exists (select from handraise.provisioned where ctid < '(16,0)')),
        ('saved_views', exists (select from handraise.saved_views where ctid < '(16,0)')),
        ('links', exists (select from handraise.links where ctid < '(16,0)')),
        ('question_links', exists (select from handraise.question_links where ctid < '(16,0)')),
        ('requests', exists (select from handraise.requests where ctid < '(16,0)')),
        ('addresses', exists (select from handraise.addresses where ctid < '(16,0)')),
        ('routing', exists (select from handraise.routing where ctid < '(16,0)')),
        ('policies', exists (select from handraise.policies where ctid < '(16,0)')),
        ('rule_suspensions', exists (select from handraise.rule_suspensions where ctid < '(16,0)')),
        ('standing_answers', exists (select from handraise.standing_answers where ctid < '(16,0)')),
        ('quotas', exists (select from handraise.quotas where ctid < '(16,0)')),
        ('stops', exists (select from handraise.stops where ctid < '(16,0)')),
        ('files', exists (select from handraise.files where ctid < '(16,0)')),
        ('file_references', exists (select from handraise.file_references where ctid < '(16,0)')),
        ('blobs', exists (select from handraise.blobs where ctid < '(16,0)')),
        ('search_entries', exists (select from handraise.search_entries where ctid < '(16,0)')),
        ('search_progress', exists (select from handraise.search_progress where ctid < '(16,0)')),
        ('outbox', exists (select from handraise.outbox where ctid < '(16,0)')),
        ('deliveries', exists (select from handraise.deliveries where ctid < '(16,0)')),
        ('seals', exists (select from handraise.seals where ctid < '(16,0)')),
        ('salts', exists (select from handraise.salts where ctid < '(16,0)')),
        ('removals', exists (select from handraise.removals where ctid < '(16,0)')),
        ('retention', exists (select from handraise.retention where ctid < '(16,0)')),
        ('holds', exists (select from handraise.holds where ctid < '(16,0)'))
) as t (name, seen)
where t.seen;

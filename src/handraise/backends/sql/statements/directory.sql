-- Who is who: keys, people, groups, sessions, links, passkeys, calendars, and what else belongs to them.

-- name: add_key
-- Store a new key.
insert into handraise.agent_keys (created_at, workspace, id, digest, agent, created_by)
values (${now}, :workspace, :id, :digest, :agent, :actor)
returning *;

-- name: find_keys
-- The keys with some digests, without those that are revoked.
select * from handraise.agent_keys
where workspace = :workspace and digest ${in(:digests::text[])} and revoked_at is null;

-- name: read_key
-- One key, revoked or not.
select * from handraise.agent_keys where workspace = :workspace and id = :id;

-- name: keys
-- A page of all keys of a workspace.
select * from handraise.agent_keys where workspace = :workspace and id > :after order by id limit :limit;

-- name: note_use
-- Record that a key is used now.
update handraise.agent_keys
set last_used_at = ${now}
where workspace = :workspace and id = :id;

-- name: revoke_key
-- End a key, unless it has been revoked before.
update handraise.agent_keys
set revoked_at = ${now}, revoked_by = :actor
where workspace = :workspace and id = :id and revoked_at is null
returning *;

-- name: put_person
-- Add or change a person, unless somebody else has the e-mail address. Who chose it counts until an account is bound.
insert into handraise.people (created_at, workspace, id, role, name, email, email_folded, email_by)
select ${now}, :workspace, :id, :role, :name, :email, :email_folded, :actor
where not exists (
    select 1 from handraise.people where workspace = :workspace and email_folded = :email_folded and id <> :id
)
on conflict (workspace, id) do update
set
    name = excluded.name, email = excluded.email, email_folded = excluded.email_folded, role = excluded.role,
    email_by = case
        when people.identity is null and coalesce(excluded.email_folded, '') <> coalesce(people.email_folded, '')
            then excluded.email_by
        else people.email_by
    end,
    admin_provided = people.admin_provided and people.role = excluded.role
returning *, ${groups_of(people)} as groups;

-- name: set_preferences
-- Store a person's preferences.
update handraise.people set language = :language, time_zone = :time_zone
where workspace = :workspace and id = :id
returning *, ${groups_of(people)} as groups;

-- name: set_away
-- Store when a person is away, unless nobody has the deputy's name.
update handraise.people
set away_from = :starts::timestamptz, away_until = :ends::timestamptz, deputy = :deputy
where workspace = :workspace and id = :id and (
    :deputy::text is null
    or exists (
        select 1 from handraise.people as d
        where d.workspace = :workspace and d.id = :deputy
        ${lock(for key share)}
    )
)
returning *, ${groups_of(people)} as groups;

-- name: away
-- Everybody who is away now. A deputy who is disabled answers for nobody.
select
    id, away_from, away_until,
    case
        when not exists (
            select 1 from handraise.people as d
            where d.workspace = people.workspace and d.id = people.deputy and d.disabled_at is not null
        ) then deputy
    end as deputy
from handraise.people
where workspace = :workspace and away_from <= ${now} and away_until > ${now}
order by id;

-- name: remove_deputy
-- Leave those without a deputy who had this one.
update handraise.people set deputy = null where workspace = :workspace and deputy = :id;

-- name: find_person
-- One person and their groups.
select p.*, ${groups_of(p)} as groups
from handraise.people as p
where p.workspace = :workspace and p.id = :id;

-- name: find_person_by_email
-- The person with an e-mail address and their groups.
select p.*, ${groups_of(p)} as groups
from handraise.people as p
where p.workspace = :workspace and p.email_folded = :email_folded;

-- name: bind_identity
-- Bind a person to an identity, unless they are bound to another one.
update handraise.people set identity = :identity
where workspace = :workspace and id = :id and (identity is null or identity = :identity)
returning id;

-- name: find_person_by_identity
-- The person who is bound to an identity, and their groups.
select p.*, ${groups_of(p)} as groups
from handraise.people as p
where p.workspace = :workspace and p.identity = :identity
order by p.id
limit 1;

-- name: disabled_people
-- Everybody who is disabled.
select id from handraise.people where workspace = :workspace and disabled_at is not null;

-- name: hold_person (only PostgreSQL)
-- Wait for whoever counts a right of this person, and make those who come later wait.
select 1 from handraise.people where workspace = :workspace and id = :id for update;

-- name: disable_person
-- Disable a person; no row if they are disabled already.
update handraise.people set disabled_at = ${now}
where workspace = :workspace and id = :id and disabled_at is null
returning *, ${groups_of(people)} as groups;

-- name: end_access
-- End the sessions and links of a person.
delete from handraise.sessions where workspace = :workspace and person = :id;
delete from handraise.links where workspace = :workspace and person = :id;
delete from handraise.question_links where workspace = :workspace and person = :id;

-- name: enable_person
-- Enable a person again; no row if they are not disabled.
update handraise.people set disabled_at = null
where workspace = :workspace and id = :id and disabled_at is not null
returning *, ${groups_of(people)} as groups;

-- name: set_provided_role
-- Make a person an administrator because their provider says so, or end that. By hand, the role stays.
update handraise.people
set
    role = case when :is_admin then 'admin' when admin_provided then 'member' else role end,
    admin_provided = :is_admin and (admin_provided or role <> 'admin')
where workspace = :workspace and id = :id;

-- name: drop_provided_members
-- End the memberships of a person that came from their provider, except in these groups.
delete from handraise.members
where workspace = :workspace and person = :id and provided and not (group_name ${in(:groups::text[])});

-- name: add_provided_members
-- Add a person to groups because their provider says so. Who is in one by hand stays in it by hand.
insert into handraise.members (workspace, group_name, person, provided)
select :workspace, g.value, :id, true from ${items(:groups::text[])} as g
where true
on conflict do nothing;

-- name: lock_groups (only PostgreSQL)
-- Make those who change any of these groups, or count a right from one, wait until the end of their transactions.
select pg_advisory_xact_lock(handraise.group_lock(:workspace, g.value))
from (select distinct value from unnest(:groups::text[]) as t (value) order by value) as g;

-- name: people
-- A page of everybody in a workspace.
select p.*, ${groups_of(p)} as groups
from handraise.people as p
where p.workspace = :workspace and p.id > :after
order by p.id
limit :limit;

-- name: known_recipients
-- Those of these names that a question can be for, one row each; also a row without a name if there are any people.
select null as name where exists (select 1 from handraise.people where workspace = :workspace)
union all
select asked.value
from ${items(:names::text[])} as asked
where
    exists (select 1 from handraise.people where workspace = :workspace and id = asked.value and disabled_at is null)
    or exists (
        select 1 from handraise.members
        where workspace = :workspace and substr(asked.value, 1, 6) = 'group:' and group_name = substr(asked.value, 7)
    )
    or (
        exists (select 1 from handraise.addresses where workspace = :workspace and recipient = asked.value)
        and not exists (
            select 1 from handraise.people where workspace = :workspace and id = asked.value and disabled_at is not null
        )
    );

-- name: remove_person
-- Remove a person from the workspace, with everything that belongs to them besides their sessions and links.
delete from handraise.provisioned where workspace = :workspace and kind = 'User' and id = :id;
delete from handraise.members where workspace = :workspace and person = :id;
delete from handraise.passkeys where workspace = :workspace and person = :id;
delete from handraise.passkey_nonces where workspace = :workspace and person = :id;
delete from handraise.saved_views where workspace = :workspace and person = :id;
delete from handraise.people where workspace = :workspace and id = :id returning id;

-- name: groups
-- Every membership in every group.
select group_name, person from handraise.members where workspace = :workspace order by group_name, person;

-- name: provided_groups
-- Every membership that a provider gave.
select group_name, person from handraise.members where workspace = :workspace and provided order by group_name, person;

-- name: lock_group (only PostgreSQL)
-- Make those who change a group wait for each other until the end of their transactions.
select pg_advisory_xact_lock(handraise.group_lock(:workspace, :group_name));

-- name: lock_person (only PostgreSQL)
-- Make those who change a person, or want the same e-mail address, wait for each other until their transactions end.
select
    pg_advisory_xact_lock(hashtextextended(json_build_array(:workspace::text, 'person', :id::text)::text, 0)),
    case when :email_folded::text is not null then pg_advisory_xact_lock(
        hashtextextended(json_build_array(:workspace::text, 'e-mail', :email_folded::text)::text, 0)
    ) end;

-- name: note_change
-- Store an event of the workspace.
insert into handraise.events (at, workspace, question_id, kind, actor, data)
values (${now}, :workspace, '', :kind, :actor, :data::text::jsonb);

-- name: empty_group
-- Remove everybody from a group.
delete from handraise.members where workspace = :workspace and group_name = :group_name returning person, provided;

-- name: fill_group
-- Add those of these people who exist to a group; some of them are in it because their provider says so.
insert into handraise.members (workspace, group_name, person, provided)
select workspace, :group_name, id, id ${in(:provided::text[])}
from handraise.people
where workspace = :workspace and id ${in(:people::text[])}
${lock(for key share)}
returning person;

-- name: open_session
-- Open a session for a person who exists and is not disabled; the update prevents both in the meantime.
update handraise.people set signed_in_at = ${now} where workspace = :workspace and id = :person and disabled_at is null;
insert into handraise.sessions (created_at, expires_at, workspace, id, digest, person, how, vouched_by, provider_session)
select ${now}, ${now} + :lasts::interval, workspace, :id, :digest, id, :how, :vouched_by, :provider_session
from handraise.people
where workspace = :workspace and id = :person and disabled_at is null
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: find_sessions
-- The sessions with some digests, without those that have ended, and their people as they are now.
select
    s.digest, p.*, ${groups_of(p)} as groups,
    s.id as session_id, s.person, s.how, s.created_at as opened_at, s.expires_at, s.vouched_by
from handraise.sessions as s
join handraise.people as p on p.workspace = s.workspace and p.id = s.person
where s.workspace = :workspace and s.digest ${in(:digests::text[])} and s.expires_at > ${now};

-- name: sessions
-- The sessions of a person that have not ended, the newest first.
select workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by
from handraise.sessions
where workspace = :workspace and person = :person and expires_at > ${now}
order by created_at desc, id desc
limit :limit;

-- name: evidence
-- Who vouches for the sessions of people that have not ended, and for the passkeys of people who are not disabled.
select person, false as is_passkey, vouched_by
from handraise.sessions
where workspace = :workspace and expires_at > ${now}
union
select k.person, true, k.vouched_by
from handraise.passkeys as k
join handraise.people as p on p.workspace = k.workspace and p.id = k.person
where k.workspace = :workspace and p.disabled_at is null;

-- name: end_session
-- End one session.
delete from handraise.sessions
where workspace = :workspace and id = :id
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: end_provider_sessions
-- End the sessions that began with a session of the provider, or those of the person who is bound to an identity that did.
delete from handraise.sessions
where workspace = :workspace and (
    provider_session = :provider_session::text
    or (
        how = 'oidc'
        and (:provider_session::text is null or provider_session is null)
        and person in (
            select p.id from handraise.people as p where p.workspace = :workspace and p.identity = :identity::text
        )
    )
)
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: add_link
-- Store a new link for a person who exists and is not disabled; the lock prevents both in the meantime.
insert into handraise.links (created_at, expires_at, workspace, id, digest, person, purpose, vouched_by)
select ${now}, ${now} + :lasts::interval, workspace, :id, :digest, id, :purpose, :vouched_by
from handraise.people
where workspace = :workspace and id = :person and disabled_at is null
${lock(for key share)}
returning *;

-- name: find_link
-- The link with a digest, unless it has ended.
select * from handraise.links where workspace = :workspace and digest = :digest and expires_at > ${now};

-- name: use_link
-- Use up a link, and with it all others of the same person; if several use it at once, only one gets a row.
delete from handraise.links
where workspace = :workspace and digest <> :digest and person = (
    select l.person from handraise.links as l
    where l.workspace = :workspace and l.digest = :digest and l.expires_at > ${now}
);
delete from handraise.links where workspace = :workspace and digest = :digest and expires_at > ${now} returning *;

-- name: add_question_link
-- Store a new question link for a person who exists and is not disabled; the lock prevents both in the meantime.
insert into handraise.question_links
    (created_at, expires_at, workspace, id, digest, question_id, person, channel, created_by)
select ${now}, ${now} + :lasts::interval, workspace, :id, :digest, :question_id, id, :channel, :actor
from handraise.people
where workspace = :workspace and id = :person and disabled_at is null
${lock(for key share)}
returning
    workspace, id as link_id, question_id, person, channel, created_at as made_at, created_by, expires_at;

-- name: find_question_link
-- The question link with a digest, unless it has ended, and its person as they are now.
select
    p.*, ${groups_of(p)} as groups, l.id as link_id, l.question_id, l.person,
    l.channel, l.created_at as made_at, l.created_by, l.expires_at
from handraise.question_links as l
join handraise.people as p on p.workspace = l.workspace and p.id = l.person
where l.workspace = :workspace and l.digest = :digest and l.expires_at > ${now};

-- name: end_question_links
-- End the links to a question, of one person or of everybody.
delete from handraise.question_links
where workspace = :workspace and question_id = :question_id
    and (:person::text is null or person = :person::text)
returning id;

-- name: claim
-- Claim a request: a new one, or one whose claimer gave it up or gave no sign for `:patience`. Otherwise no row.
insert into handraise.requests (began_at, workspace, actor, key, fingerprint, made)
values (${now}, :workspace, :actor, :key, :fingerprint, :made)
on conflict (workspace, actor, key) do update
set began_at = excluded.began_at, released = false, turns = requests.turns + 1
where requests.fingerprint = excluded.fingerprint and requests.status is null
    and (requests.released or requests.began_at <= excluded.began_at - :patience::interval)
returning made, turns;

-- name: read_request
-- One request in its present state.
select fingerprint, made, status, body
from handraise.requests
where workspace = :workspace and actor = :actor and key = :key;

-- name: finish
-- Store the response to a request, unless it has one.
update handraise.requests
set status = :status, body = :body
where workspace = :workspace and actor = :actor and key = :key and turns = :turn and status is null;

-- name: release
-- Give up a request without a response.
update handraise.requests
set released = true
where workspace = :workspace and actor = :actor and key = :key and turns = :turn and status is null;

-- name: add_passkey
-- Store a passkey of a person who exists, unless it is registered already; the lock prevents their removal meanwhile.
insert into handraise.passkeys (created_at, sign_count, workspace, id, person, name, domain, public_key, vouched_by)
select ${now}, :sign_count::bigint, workspace, :id, id, :name, :domain, :public_key, :vouched_by
from handraise.people
where workspace = :workspace and id = :person
${lock(for key share)}
on conflict do nothing
returning *;

-- name: passkeys
-- The passkeys of a person, the oldest first.
select * from handraise.passkeys where workspace = :workspace and person = :person order by created_at, id;

-- name: use_passkey
-- Record that a passkey is used, unless it counts its signatures and this one has been counted before.
update handraise.passkeys
set last_used_at = ${now}, sign_count = :sign_count::bigint
where workspace = :workspace and id = :id and person = :person
    and (:sign_count::bigint > sign_count or (:sign_count::bigint = 0 and sign_count = 0))
returning id;

-- name: remove_passkey
-- Remove a passkey of a person.
delete from handraise.passkeys where workspace = :workspace and id = :id and person = :person returning *;

-- name: add_nonce
-- Store a nonce for a person who exists, and forget theirs that have ended.
delete from handraise.passkey_nonces where workspace = :workspace and person = :person and expires_at <= ${now};
insert into handraise.passkey_nonces (expires_at, workspace, id, person)
select ${now} + :lasts::interval, workspace, :id, id
from handraise.people
where workspace = :workspace and id = :person
${lock(for key share)}
returning id;

-- name: use_nonce
-- Use up a nonce: if several use it at once, only one gets a row.
delete from handraise.passkey_nonces
where workspace = :workspace and id = :id and person = :person and expires_at > ${now}
returning id;

-- name: calendars
-- The calendars of a workspace without the texts of rotas, and the present time, also if there are none.
select
    n.now, c.workspace, c.group_name, c.hours, c.rota, c.fetched_at, c.tried_at, c.problem, c.shifts
from (select ${now} as now) as n
left join handraise.calendars as c on c.workspace = :workspace
order by c.group_name;

-- name: read_calendar
-- One calendar.
select workspace, group_name, hours, rota, fetched_at, tried_at, problem, shifts
from handraise.calendars
where workspace = :workspace and group_name = :group_name;

-- name: put_hours
-- Set the working hours of a group.
insert into handraise.calendars (workspace, group_name, hours)
values (:workspace, :group_name, :hours::text)
on conflict (workspace, group_name) do update set hours = excluded.hours;

-- name: put_rota
-- Set the rota of a group.
insert into handraise.calendars (workspace, group_name, rota, ics, fetched_at)
values (:workspace, :group_name, :rota, :ics::text, case when :ics::text is not null then ${now} end)
on conflict (workspace, group_name) do update
set rota = excluded.rota, ics = excluded.ics, fetched_at = excluded.fetched_at, tried_at = null, problem = null,
    shifts = null;

-- name: drop_calendar
-- Remove a calendar in which nothing is left.
delete from handraise.calendars
where workspace = :workspace and group_name = :group_name and hours is null and rota is null;

-- name: rota_text
-- The text of a rota.
select ics from handraise.calendars where workspace = :workspace and group_name = :group_name;

-- name: claim_rota
-- Claim the fetching of a rota: if several claim it at once, only one gets a row.
update handraise.calendars set tried_at = ${now}
where
    workspace = :workspace and group_name = :group_name and rota = :rota
    and (tried_at is null or tried_at <= ${now} - :every::interval)
returning group_name;

-- name: keep_rota
-- Store what fetching a rota gave.
update handraise.calendars
set
    ics = coalesce(:ics::text, ics), shifts = coalesce(:shifts::text, shifts), problem = :problem::text,
    fetched_at = case when :ics::text is not null then ${now} else fetched_at end
where workspace = :workspace and group_name = :group_name and rota = :rota
returning group_name;

-- name: save_view
-- Save a view of a person who exists, unless they have one of this name, or as many as they may.
insert into handraise.saved_views (created_at, workspace, person, name, query)
select ${now}, workspace, id, :name, :query
from handraise.people
where workspace = :workspace and id = :person and (
    select count(*) from handraise.saved_views where workspace = :workspace and person = :person
) < :at_most::bigint
${lock(for key share)}
on conflict do nothing
returning *;

-- name: saved_views
-- The views of a person, the oldest first.
select * from handraise.saved_views where workspace = :workspace and person = :person order by created_at, name;

-- name: remove_view
-- Remove a view of a person.
delete from handraise.saved_views where workspace = :workspace and person = :person and name = :name returning name;

-- name: put_provisioned
-- Store what a provider wrote about a person or a group, unless another of its kind has the name.
insert into handraise.provisioned (created_at, changed_at, workspace, kind, id, name_folded, document)
select ${now}, ${now}, :workspace, :kind, :id, :name_folded, :document::text::json
where not exists (
    select 1 from handraise.provisioned
    where workspace = :workspace and kind = :kind and name_folded = :name_folded and id <> :id
)
on conflict (workspace, kind, id) do update
set changed_at = excluded.changed_at, name_folded = excluded.name_folded, document = excluded.document
returning *;

-- name: find_provisioned
-- What a provider wrote about one person or group.
select * from handraise.provisioned where workspace = :workspace and kind = :kind and id = :id;

-- name: find_provisioned_by_name
-- The same, by the name at the provider.
select * from handraise.provisioned
where workspace = :workspace and kind = :kind and name_folded = :name_folded;

-- name: provisioned
-- Everything that a provider wrote about people, or about groups.
select * from handraise.provisioned where workspace = :workspace and kind = :kind order by id;

-- name: remove_provisioned
-- Forget what a provider wrote about one person or group.
delete from handraise.provisioned where workspace = :workspace and kind = :kind and id = :id returning id;

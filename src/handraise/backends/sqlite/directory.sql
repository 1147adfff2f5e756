-- The statements of the SQLite directory, with the names and parameters of PostgreSQL's. Writes run inside BEGIN
-- IMMEDIATE: nothing needs its own lock. Lists come as JSON arrays.

-- name: add_key
-- Store a new key.
insert into agent_keys (workspace, id, digest, agent, created_at, created_by)
values (:workspace, :id, :digest, :agent, :now, :actor)
returning *;

-- name: find_keys
-- The keys with some digests, without those that are revoked.
select * from agent_keys
where workspace = :workspace and digest in (select value from json_each(:digests)) and revoked_at is null;

-- name: read_key
-- One key, revoked or not.
select * from agent_keys where workspace = :workspace and id = :id;

-- name: keys
-- A page of all keys of a workspace.
select * from agent_keys where workspace = :workspace and id > :after order by id limit :limit;

-- name: note_use
-- Record that a key is used now.
update agent_keys set last_used_at = :now where workspace = :workspace and id = :id;

-- name: revoke_key
-- End a key, unless it has been revoked before.
update agent_keys
set revoked_at = :now, revoked_by = :actor
where workspace = :workspace and id = :id and revoked_at is null
returning *;

-- name: put_person
-- Add or change a person, unless somebody else has the e-mail address. Who chose it counts until an account is bound.
insert into people (workspace, id, name, email, email_folded, email_by, role, created_at)
select :workspace, :id, :name, :email, :email_folded, :actor, :role, :now
where not exists (
    select 1 from people where workspace = :workspace and email_folded = :email_folded and id <> :id
)
on conflict (workspace, id) do update
set
    name = excluded.name, email = excluded.email, email_folded = excluded.email_folded, role = excluded.role,
    email_by = case
        when people.identity is null and excluded.email_folded is not people.email_folded then excluded.email_by
        else people.email_by
    end,
    admin_provided = people.admin_provided and people.role = excluded.role
returning *, (
    select json_group_array(m.group_name) from members as m where m.workspace = people.workspace and m.person = people.id
) as groups;

-- name: set_preferences
-- Store a person's preferences.
update people set language = :language, time_zone = :time_zone
where workspace = :workspace and id = :id
returning *, (
    select json_group_array(m.group_name) from members as m where m.workspace = people.workspace and m.person = people.id
) as groups;

-- name: set_away
-- Store when a person is away, unless nobody has the deputy's name.
update people set away_from = :starts, away_until = :ends, deputy = :deputy
where workspace = :workspace and id = :id and (
    :deputy is null or exists (select 1 from people as d where d.workspace = :workspace and d.id = :deputy)
)
returning *, (
    select json_group_array(m.group_name) from members as m where m.workspace = people.workspace and m.person = people.id
) as groups;

-- name: away
-- Everybody who is away now. A deputy who is disabled answers for nobody.
select
    id, away_from, away_until,
    case
        when not exists (
            select 1
            from people as d
            where d.workspace = people.workspace and d.id = people.deputy and d.disabled_at is not null
        ) then deputy
    end as deputy
from people
where workspace = :workspace and away_from <= :now and away_until > :now
order by id;

-- name: remove_deputy
-- Leave those without a deputy who had this one.
update people set deputy = null where workspace = :workspace and deputy = :id;

-- name: find_person
-- One person and their groups.
select * from people_with_groups where workspace = :workspace and id = :id;

-- name: find_person_by_email
-- The person with an e-mail address and their groups.
select * from people_with_groups where workspace = :workspace and email_folded = :email_folded;

-- name: bind_identity
-- Bind a person to an identity, unless they are bound to another one.
update people set identity = :identity
where workspace = :workspace and id = :id and (identity is null or identity = :identity)
returning id;

-- name: find_person_by_identity
-- The person who is bound to an identity, and their groups.
select * from people_with_groups where workspace = :workspace and identity = :identity order by id limit 1;

-- name: disabled_people
-- Everybody who is disabled.
select id from people where workspace = :workspace and disabled_at is not null;

-- name: hold_person
-- Nothing to do.

-- name: disable_person
-- Disable a person, and end their sessions and links; no row if they are disabled already.
delete from sessions
where workspace = :workspace and person = :id
    and exists (select 1 from enabled_people where workspace = :workspace and id = :id);
delete from links
where workspace = :workspace and person = :id
    and exists (select 1 from enabled_people where workspace = :workspace and id = :id);
delete from question_links
where workspace = :workspace and person = :id
    and exists (select 1 from enabled_people where workspace = :workspace and id = :id);
update people set disabled_at = :now
where workspace = :workspace and id = :id and disabled_at is null
returning *, (
    select json_group_array(m.group_name) from members as m where m.workspace = people.workspace and m.person = people.id
) as groups;

-- name: enable_person
-- Enable a person again; no row if they are not disabled.
update people set disabled_at = null
where workspace = :workspace and id = :id and disabled_at is not null
returning *, (
    select json_group_array(m.group_name) from members as m where m.workspace = people.workspace and m.person = people.id
) as groups;

-- name: set_provided_role
-- Make a person an administrator because their provider says so, or end that. By hand, the role stays.
update people
set
    role = case when :is_admin then 'admin' when admin_provided then 'member' else role end,
    admin_provided = :is_admin and (admin_provided or role <> 'admin')
where workspace = :workspace and id = :id;

-- name: drop_provided_members
-- End the memberships of a person that came from their provider, except in these groups.
delete from members
where workspace = :workspace and person = :id and provided
    and group_name not in (select value from json_each(:groups));

-- name: add_provided_members
-- Add a person to groups because their provider says so. Who is in one by hand stays in it by hand.
insert into members (workspace, group_name, person, provided)
select :workspace, value, :id, 1 from json_each(:groups) where true
on conflict do nothing;

-- name: lock_groups
-- Nothing to do.

-- name: people
-- A page of everybody in a workspace.
select * from people_with_groups where workspace = :workspace and id > :after order by id limit :limit;

-- name: known_recipients
-- Those of these names that a question can be for, one row each; also a row without a name if there are any people.
select null as name where exists (select 1 from people where workspace = :workspace)
union all
select value
from json_each(:names)
where
    exists (select 1 from enabled_people where workspace = :workspace and id = value)
    or exists (
        select 1 from members
        where workspace = :workspace and value glob 'group:*' and group_name = substr(value, 7)
    )
    or (
        exists (select 1 from addresses where workspace = :workspace and recipient = value)
        and not exists (select 1 from people where workspace = :workspace and id = value and disabled_at is not null)
    );

-- name: remove_person
-- Remove a person from the workspace, with everything that belongs to them.
select * from people_with_groups where workspace = :workspace and id = :id;
delete from people where workspace = :workspace and id = :id;
delete from members where workspace = :workspace and person = :id;
delete from sessions where workspace = :workspace and person = :id;
delete from links where workspace = :workspace and person = :id;
delete from question_links where workspace = :workspace and person = :id;
delete from passkeys where workspace = :workspace and person = :id;
delete from passkey_nonces where workspace = :workspace and person = :id;
delete from saved_views where workspace = :workspace and person = :id;
delete from provisioned where workspace = :workspace and kind = 'User' and id = :id;

-- name: groups
-- Every membership in every group.
select group_name, person from members where workspace = :workspace order by group_name, person;

-- name: provided_groups
-- Every membership that a provider gave.
select group_name, person from members where workspace = :workspace and provided order by group_name, person;

-- name: lock_group
-- Nothing to do.

-- name: lock_person
-- Nothing to do.

-- name: empty_group
-- Remove everybody from a group.
delete from members where workspace = :workspace and group_name = :group_name returning person, provided;

-- name: fill_group
-- Add those of these people who exist to a group; some of them are in it because their provider says so.
insert into members (workspace, group_name, person, provided)
select workspace, :group_name, id, id in (select value from json_each(:provided))
from people
where workspace = :workspace and id in (select value from json_each(:people))
returning person;

-- name: open_session
-- Open a session for a person who exists and is not disabled.
update people set signed_in_at = :now where workspace = :workspace and id = :person and disabled_at is null;
insert into sessions
    (workspace, id, digest, person, how, created_at, expires_at, vouched_by, provider_session)
select workspace, :id, :digest, id, :how, :now, :now + :lasts, :vouched_by, :provider_session
from enabled_people
where workspace = :workspace and id = :person
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: find_sessions
-- The sessions with some digests, without those that have ended, and their people as they are now.
select s.digest, p.*, s.id as session_id, s.person, s.how, s.created_at as opened_at, s.expires_at, s.vouched_by
from sessions as s
join people_with_groups as p on p.workspace = s.workspace and p.id = s.person
where
    s.workspace = :workspace and s.digest in (select value from json_each(:digests)) and s.expires_at > :now;

-- name: sessions
-- The sessions of a person that have not ended, the newest first.
select workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by
from sessions
where workspace = :workspace and person = :person and expires_at > :now
order by created_at desc, id desc
limit :limit;

-- name: evidence
-- Who vouches for the sessions of people that have not ended, and for the passkeys of people who are not disabled.
select person, 0 as is_passkey, vouched_by
from sessions
where workspace = :workspace and expires_at > :now
union
select k.person, 1, k.vouched_by
from passkeys as k
join enabled_people as p on p.workspace = k.workspace and p.id = k.person
where k.workspace = :workspace;

-- name: end_session
-- End one session.
delete from sessions
where workspace = :workspace and id = :id
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: end_provider_sessions
-- End the sessions that began with a session of the provider, or those of the person who is bound to an identity that did.
delete from sessions
where workspace = :workspace and (
    provider_session = :provider_session
    or (
        how = 'oidc'
        and (:provider_session is null or provider_session is null)
        and person in (select id from people where workspace = :workspace and identity = :identity)
    )
)
returning workspace, id as session_id, person, how, created_at as opened_at, expires_at, vouched_by;

-- name: add_link
-- Store a new link for a person who exists and is not disabled.
insert into links (workspace, id, digest, person, purpose, created_at, expires_at, vouched_by)
select workspace, :id, :digest, id, :purpose, :now, :now + :lasts, :vouched_by
from enabled_people
where workspace = :workspace and id = :person
returning *;

-- name: find_link
-- The link with a digest, unless it has ended.
select * from links where workspace = :workspace and digest = :digest and expires_at > :now;

-- name: use_link
-- Use up a link, and with it all others of the same person; if several use it at once, only one gets a row.
delete from links
where workspace = :workspace and digest <> :digest and person = (
    select person from links where workspace = :workspace and digest = :digest and expires_at > :now
);
delete from links where workspace = :workspace and digest = :digest and expires_at > :now returning *;

-- name: add_question_link
-- Store a new question link for a person who exists and is not disabled.
insert into question_links
    (workspace, id, digest, question_id, person, channel, created_at, created_by, expires_at)
select workspace, :id, :digest, :question_id, id, :channel, :now, :actor, :now + :lasts
from enabled_people
where workspace = :workspace and id = :person
returning
    workspace, id as link_id, question_id, person, channel, created_at as made_at, created_by, expires_at;

-- name: find_question_link
-- The question link with a digest, unless it has ended, and its person as they are now.
select
    p.*, l.id as link_id, l.question_id, l.person, l.channel, l.created_at as made_at, l.created_by,
    l.expires_at
from question_links as l
join people_with_groups as p on p.workspace = l.workspace and p.id = l.person
where l.workspace = :workspace and l.digest = :digest and l.expires_at > :now;

-- name: end_question_links
-- End the links to a question, of one person or of everybody.
delete from question_links
where workspace = :workspace and question_id = :question_id and (:person is null or person = :person)
returning id;

-- name: note_change
-- Store an event of the workspace.
insert into events (workspace, question_id, kind, at, actor, data)
values (:workspace, '', :kind, :now, :actor, :data);

-- name: claim
-- Claim a request: a new one, or one that was given up or not finished within `:patience`. Otherwise no row.
insert into requests (workspace, actor, key, fingerprint, made, began_at)
values (:workspace, :actor, :key, :fingerprint, :made, :now)
on conflict (workspace, actor, key) do update
set began_at = excluded.began_at, released = 0, turns = turns + 1
where fingerprint = excluded.fingerprint and status is null and (released or began_at <= :now - :patience)
returning made, turns;

-- name: read_request
-- One request in its present state.
select fingerprint, made, status, body
from requests
where workspace = :workspace and actor = :actor and key = :key;

-- name: finish
-- Store the response to a request, unless it has one.
update requests
set status = :status, body = :body
where workspace = :workspace and actor = :actor and key = :key and turns = :turn and status is null;

-- name: release
-- Give up a request without a response.
update requests
set released = 1
where workspace = :workspace and actor = :actor and key = :key and turns = :turn and status is null;

-- name: forget
-- Forget what was over longer than `:older_than` ago: the oldest requests, and the links and sessions that ended first.
delete from requests
where (workspace, actor, key) in (
    select workspace, actor, key from requests where began_at < :now - :older_than order by began_at limit :limit
)
returning 1 as number;
delete from links
where (workspace, id) in (
    select workspace, id from links where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;
delete from question_links
where (workspace, id) in (
    select workspace, id from question_links
    where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;
delete from sessions
where (workspace, id) in (
    select workspace, id from sessions where expires_at < :now - :older_than order by expires_at limit :limit
)
returning 1 as number;

-- name: add_passkey
-- Store a passkey of a person who exists, unless it is registered already.
insert into passkeys (workspace, id, person, name, domain, public_key, sign_count, created_at, vouched_by)
select workspace, :id, id, :name, :domain, :public_key, :sign_count, :now, :vouched_by
from people
where workspace = :workspace and id = :person
on conflict do nothing
returning *;

-- name: passkeys
-- The passkeys of a person, the oldest first.
select * from passkeys where workspace = :workspace and person = :person order by created_at, id;

-- name: use_passkey
-- Record that a passkey is used, unless it counts its signatures and this one has been counted before.
update passkeys
set last_used_at = :now, sign_count = :sign_count
where workspace = :workspace and id = :id and person = :person
    and (:sign_count > sign_count or (:sign_count = 0 and sign_count = 0))
returning id;

-- name: remove_passkey
-- Remove a passkey of a person.
delete from passkeys where workspace = :workspace and id = :id and person = :person returning *;

-- name: add_nonce
-- Store a nonce for a person who exists, and forget theirs that have ended.
delete from passkey_nonces where workspace = :workspace and person = :person and expires_at <= :now;
insert into passkey_nonces (workspace, id, person, expires_at)
select workspace, :id, id, :now + :lasts
from people
where workspace = :workspace and id = :person
returning id;

-- name: use_nonce
-- Use up a nonce: if several use it at once, only one gets a row.
delete from passkey_nonces
where workspace = :workspace and id = :id and person = :person and expires_at > :now
returning id;

-- name: calendars
-- The calendars of a workspace without the texts of rotas, and the present time, also if there are none.
select
    n.now, c.workspace, c.group_name, c.hours, c.rota, c.fetched_at, c.tried_at, c.problem, c.shifts
from (select :now as now) as n
left join calendars as c on c.workspace = :workspace
order by c.group_name;

-- name: read_calendar
-- One calendar.
select workspace, group_name, hours, rota, fetched_at, tried_at, problem, shifts
from calendars
where workspace = :workspace and group_name = :group_name;

-- name: put_hours
-- Set the working hours of a group.
insert into calendars (workspace, group_name, hours)
values (:workspace, :group_name, :hours)
on conflict (workspace, group_name) do update set hours = excluded.hours;

-- name: put_rota
-- Set the rota of a group.
insert into calendars (workspace, group_name, rota, ics, fetched_at)
values (:workspace, :group_name, :rota, :ics, case when :ics is not null then :now end)
on conflict (workspace, group_name) do update
set rota = excluded.rota, ics = excluded.ics, fetched_at = excluded.fetched_at, tried_at = null, problem = null,
    shifts = null;

-- name: drop_calendar
-- Remove a calendar in which nothing is left.
delete from calendars
where workspace = :workspace and group_name = :group_name and hours is null and rota is null;

-- name: rota_text
-- The text of a rota.
select ics from calendars where workspace = :workspace and group_name = :group_name;

-- name: claim_rota
-- Claim the fetching of a rota: if several claim it at once, only one gets a row.
update calendars set tried_at = :now
where
    workspace = :workspace and group_name = :group_name and rota = :rota
    and (tried_at is null or tried_at <= :now - :every)
returning group_name;

-- name: keep_rota
-- Store what fetching a rota gave.
update calendars
set
    ics = coalesce(:ics, ics), shifts = coalesce(:shifts, shifts), problem = :problem,
    fetched_at = case when :ics is not null then :now else fetched_at end
where workspace = :workspace and group_name = :group_name and rota = :rota
returning group_name;

-- name: workspaces_with_rotas
-- Some of the workspaces in which a group has a rota.
select distinct workspace from calendars where rota is not null order by workspace limit :at_most;

-- name: save_view
-- Save a view of a person who exists, unless they have one of this name, or as many as they may.
insert into saved_views (workspace, person, name, query, created_at)
select workspace, id, :name, :query, :now
from people
where workspace = :workspace and id = :person
    and (select count(*) from saved_views where workspace = :workspace and person = :person) < :at_most
on conflict do nothing
returning *;

-- name: saved_views
-- The views of a person, the oldest first.
select * from saved_views where workspace = :workspace and person = :person order by created_at, name;

-- name: remove_view
-- Remove a view of a person.
delete from saved_views where workspace = :workspace and person = :person and name = :name returning name;

-- name: put_provisioned
-- Store what a provider wrote about a person or a group, unless another of its kind has the name.
insert into provisioned (workspace, kind, id, name_folded, document, created_at, changed_at)
select :workspace, :kind, :id, :name_folded, :document, :now, :now
where not exists (
    select 1
    from provisioned
    where workspace = :workspace and kind = :kind and name_folded = :name_folded and id <> :id
)
on conflict (workspace, kind, id) do update
set changed_at = excluded.changed_at, name_folded = excluded.name_folded, document = excluded.document
returning *;

-- name: find_provisioned
-- What a provider wrote about one person or group.
select * from provisioned where workspace = :workspace and kind = :kind and id = :id;

-- name: find_provisioned_by_name
-- The same, by the name at the provider.
select * from provisioned where workspace = :workspace and kind = :kind and name_folded = :name_folded;

-- name: provisioned
-- Everything that a provider wrote about people, or about groups.
select * from provisioned where workspace = :workspace and kind = :kind order by id;

-- name: remove_provisioned
-- Forget what a provider wrote about one person or group.
delete from provisioned where workspace = :workspace and kind = :kind and id = :id returning id;

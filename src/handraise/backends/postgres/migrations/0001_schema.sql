-- oldest release: 0.1.0
-- The whole schema. Its rules:
--   * Everything is in the schema `handraise`. Every row belongs to one workspace, and PostgreSQL itself keeps
--     workspaces apart by row-level security.
--   * Ids are text compared by bytes: any id factory works, and time-ordered ids sort by time.
--   * No index of `questions` has a column that changes, so that settling a question is a HOT update. Whatever finds
--     pending questions is in `inbox`.
--   * Columns of fixed width come first, so that no padding is stored.
--   * Of a secret, only the digest is kept.
--
-- In this order: the workspace; imports; questions, their inbox, events and grants; the directory of people and agents;
-- deliveries; what does not change; the audit trail; full-text search; erasing; row-level security; rights.


-- == The workspaces of a transaction ==

-- Whether this transaction is about a workspace. The setting `handraise.workspaces` has the hex of the UTF-8 of each name, so
-- that nothing needs quoting: `,77,78,.` is for the workspaces `w` and `x`. It is null if it was never set, and empty after a
-- transaction that set it; then no row is visible. This is evaluated for each row, and split_part() is the fastest way to
-- search a long text. There is no sub-select, so that this becomes a part of each statement.
create function handraise.is_visible(workspace text) returns boolean
    language sql stable parallel safe
    return split_part(
        current_setting('handraise.workspaces', true), ',' || encode(convert_to(workspace, 'UTF8'), 'hex') || ',', 2
    ) <> '';

-- Make this transaction be about one workspace.
create function handraise.set_workspace(workspace text) returns text
    language sql
    return set_config('handraise.workspaces', ',' || encode(convert_to(workspace, 'UTF8'), 'hex') || ',.', true);


-- == Imports ==

-- The workspaces that are being imported. `lines` of the file with this digest are stored. Until an import is complete, nothing
-- is sealed or indexed of its workspace.
create table handraise.imports (
    lines         bigint      not null,
    workspace     text        collate "C" primary key,
    file          text        collate "C" not null
);


-- == Questions ==

create table handraise.questions (
    asked_at      timestamptz not null,
    expires_at    timestamptz,
    settled_at    timestamptz,
    consumed_at   timestamptz,
    -- Since when an approval that nobody has consumed is taken back.
    taken_back_at timestamptz,
    -- When the last step of the timeline was taken: a late step puts off the next one.
    stepped_at    timestamptz,
    -- When the asker reported what came of the answer.
    reported_at   timestamptz,
    unreached_at  timestamptz,
    -- When the question was shown in a chat of its asker's, and until when a process has taken that on.
    sent_at       timestamptz,
    sending_until timestamptz,
    taken_until   timestamptz,
    -- When the asker was last heard from. No index has it: it changes often, and without an event.
    heard_at      timestamptz,
    -- For how many seconds a person may take an answer back before it is sent. Null is not at all.
    undo_for      double precision,
    -- After how many seconds without a sign of the asker nobody waits for the answer any more. Null is not known.
    heartbeat     double precision,
    attempts      integer     not null default 0,
    max_attempts  integer,
    quorum          smallint    not null,
    steps_taken   smallint    not null default 0,
    -- How many messages the thread has, which of them waits for a reply (0 is none), and which was the last reply.
    thread        smallint    not null default 0,
    asked_back    smallint    not null default 0,
    replied       smallint    not null default 0,
    veto          boolean     not null,
    -- A key is its asker's own, so that nobody can take another's. Askers that share one on purpose say so.
    shared        boolean     not null default false,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    status        text        collate "C" not null default 'pending',
    -- The question of the same asker that this one replaces, and the one that replaced this one.
    replaces      text        collate "C",
    replaced_by   text        collate "C",
    -- What is asked, across askers; what equal questions of one topic have in common; and the one that this one follows.
    topic         text        collate "C",
    topic_key     text        collate "C",
    follows       text        collate "C",
    -- Who is working on the answer, as far as they said.
    taken_by      text        collate "C",
    asker         text        collate "C" not null,
    key           text        collate "C",
    conversation  text        collate "C",
    tool_call     text        collate "C",
    -- The span in which the question was asked, as a W3C traceparent: the span of an answer links to it.
    trace         text        collate "C",
    -- Who replies if a person asks back.
    replies       text        collate "C",
    recipients    jsonb       not null,
    -- Who is asked besides: deputies, and those whom somebody brought in. Null is nobody.
    added         jsonb,
    -- Who does not want it in their inbox, and until when, in microseconds since 1970. Null is nobody.
    aside         jsonb,
    prompt        text        not null,
    form          json        not null,
    context       json,
    state         json,
    steps         jsonb,
    votes         jsonb,
    -- By what right each vote was given: `backed` is true if the directory gave it, false if only the calling program
    -- vouched for it, null if the directory did not know the person; `groups` are those that were vouched for; `seen`
    -- is how many messages of the thread it covers. Those whose votes were dropped are here too.
    voters        jsonb,
    -- How many people each of the needs lacks. Null before the first vote.
    missing       jsonb,
    -- What the policy of the workspace requires in addition: who must be among those who agree, and which evidence.
    needs         jsonb,
    evidence      text        collate "C",
    -- The version of the policy that applied, the rules that matched, and what the asker had asked for instead.
    ruling        json,
    outcome       json,
    report        json,
    -- The descriptions of its files. Null is none.
    attachments   json,
    primary key (workspace, id),
    check (status in ('pending', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned')),
    check ((status = 'pending') = (settled_at is null) and (settled_at is null) = (outcome is null)),
    check ((reported_at is null) = (report is null))
-- A batch may settle all questions of a page at once, so each needs room for a second version there.
) with (fillfactor = 50);

-- A key that askers share is unique here. An asker's own is in `events`, with those that it joined with: one index of keys, which
-- are often random, is dear enough.
create unique index questions_by_shared_key on handraise.questions (workspace, key) where shared and key is not null;

-- A question is replaced once: of two that would replace it at the same time, one is not stored.
create unique index questions_by_replaced on handraise.questions (workspace, asker, replaces) where replaces is not null;

-- Whether a person does not want a question in their inbox now.
create function handraise.is_aside(aside jsonb, person text, now timestamptz) returns boolean
    language sql stable parallel safe
    return coalesce((aside ->> person)::bigint > extract(epoch from now) * 1000000, false);

-- For `queue_stats`, which concerns all workspaces. Such functions run as the owner of the tables, who is bound by row-level
-- security too (unless it is a superuser). Policies like this one let the owner see what the function needs.
create policy counted on handraise.questions for select to current_user using (true);

-- Pending questions only: a row for each recipient ('*' if anyone may answer), deleted when the question settles. The
-- `main` row stands for the question itself and has its next due step. Those that a timeline escalates to have their
-- rows from the start, not yet `open`. What a question has here follows from it: see `handraise.model.inbox_entries`.
create table handraise.inbox (
    due_at        timestamptz,
    -- Of the main row: when the question is closed because nobody waits for it, or put off if its asker was heard from
    -- meanwhile. Null if the policy does not close it.
    unheard_at    timestamptz,
    asked_at      timestamptz not null default now(),
    -- Who is working on the answer, and until when, as in `questions`.
    taken_until   timestamptz,
    -- Escalated questions first, then those of high risk, then by expiry: see `handraise.model.urgency`. The default is for a
    -- question that is neither escalated nor an approval, and never expires.
    urgency       bigint  not null default 1693247906775043,
    -- The same for questions of one asker that are equal. Null is like no other.
    likeness      bigint,
    step          smallint,
    main          boolean not null,
    open          boolean not null,
    -- Whether an answer is a vote. This, the kind and the tool are for views, which must not read the question.
    takes_votes   boolean not null default false,
    workspace     text collate "C" not null,
    question_id   text collate "C" not null,
    recipient     text collate "C" not null,
    asker         text collate "C" not null,
    conversation  text collate "C",
    kind          text collate "C",
    tool          text collate "C",
    taken_by      text collate "C",
    -- As in `questions`.
    aside         jsonb,
    -- Of the main row: the topic of a question that others can follow, or the question that this one follows.
    topic_key     text collate "C",
    follows       text collate "C",
    primary key (workspace, question_id, recipient)
) with (fillfactor = 90);

create unique index inbox_by_topic on handraise.inbox (workspace, topic_key) where topic_key is not null;
create index inbox_by_followed on handraise.inbox (workspace, follows, question_id) where follows is not null;

create index inbox_by_recipient on handraise.inbox (workspace, recipient, question_id) where open;
create index inbox_by_urgency on handraise.inbox (workspace, recipient, urgency, question_id) where open;
create index inbox_all_by_urgency on handraise.inbox (workspace, urgency, question_id) where main;
create index inbox_by_asker on handraise.inbox (workspace, asker, question_id) where main;
create index inbox_by_conversation on handraise.inbox (workspace, conversation, question_id)
    where main and conversation is not null;
create index inbox_by_due on handraise.inbox (due_at) where due_at is not null;
create index inbox_by_workspace_and_due on handraise.inbox (workspace, due_at) where due_at is not null;
create index inbox_unheard on handraise.inbox (unheard_at) where unheard_at is not null;
create index inbox_by_workspace_and_unheard on handraise.inbox (workspace, unheard_at) where unheard_at is not null;

create policy seen_when_due on handraise.inbox for select to current_user using (true);

-- One line of history for each transition; an event that is about no question has '' as its question's id.
-- `transaction` orders the feed: a reader takes only what is older than every transaction that is still running, so that
-- a late commit is never skipped.
create table handraise.events (
    transaction   xid8        not null default pg_current_xact_id(),
    number        bigint      generated always as identity,
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    kind          text        collate "C" not null,
    actor         text        collate "C",
    channel       text        collate "C",
    -- The asker's key for the question; or another one under which it is found: that of a call that waits for the same
    -- answer, which `data` has too. A key that several askers share is not here.
    key           text        collate "C",
    data          jsonb,
    primary key (workspace, transaction, number)
);

create index events_by_question on handraise.events (workspace, question_id, number);
create unique index events_by_key on handraise.events (workspace, actor, key) where key is not null;
create index events_of_workspaces on handraise.events (workspace, transaction, number) where question_id = '';

create policy seen_when_sealed on handraise.events for select to current_user using (question_id = '');

-- The cursor of an event. What came from SQLite has the transaction 0, which a cursor does not show, as there.
create function handraise.cursor_text(transaction xid8, number bigint) returns text
    language sql immutable parallel safe
    return case when transaction = '0'::xid8 then '' else transaction::text || '.' end || number::text;

-- Processes that listen for wake-ups. If none was seen lately, a writer sends no NOTIFY.
create unlogged table handraise.listeners (
    seen_at       timestamptz not null,
    -- Whether it is also told of feeds, or only of settled questions.
    feeds         boolean     not null default false,
    process       text collate "C" primary key
);

-- Remembered approvals: for one conversation (session) or everywhere (always), always with an end.
create table handraise.grants (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    revoked_at    timestamptz,
    -- By what right it was given, as in `voters`, with the groups that were vouched for.
    giver_backed  boolean,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    asker         text        collate "C" not null,
    tool          text        collate "C" not null,
    digest        text        collate "C" not null,
    scope         text        collate "C" not null check (scope in ('session', 'always')),
    conversation  text        collate "C",
    granted_by    text        collate "C" not null,
    revoked_by    text        collate "C",
    question_id   text        collate "C" not null,
    giver_groups  jsonb,
    primary key (workspace, id)
);

create index grants_by_action on handraise.grants (workspace, asker, tool, digest) where revoked_at is null;
create index grants_by_question on handraise.grants (workspace, question_id);

-- Answers that people keep for a topic, always with an end. `topic_key` is the same for questions that it answers.
create table handraise.standing_answers (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    revoked_at    timestamptz,
    spot_check    float8      not null check (spot_check between 0 and 1),
    -- By what right it was given, as in `voters`, with the groups that were vouched for.
    giver_backed  boolean,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    topic         text        collate "C" not null,
    topic_key     text        collate "C" not null,
    given_by      text        collate "C" not null,
    revoked_by    text        collate "C",
    -- The spot check in which a person answered differently.
    contradicted_in text      collate "C",
    question_id   text        collate "C" not null,
    value         json        not null,
    giver_groups  jsonb,
    primary key (workspace, id)
);

create index standing_answers_by_topic on handraise.standing_answers (workspace, topic_key) where revoked_at is null;
create index standing_answers_by_question on handraise.standing_answers (workspace, question_id);

-- Whether a row of the inbox is in a view, except for whether it is set aside; see `handraise.model.pending_views`. The
-- numbers are those of `handraise.model.urgency`: 2^51 is added while it is the asker's turn, 2^50 unless it was escalated, and 2^49
-- unless it was escalated or is of high risk.
-- PostgreSQL writes its body into the statement, which is ten times as fast as a call for each row. It would not if
-- there were a subquery in it, so `has_voted` is a function of its own.
create function handraise.is_in_view(i handraise.inbox, view text, person text, now timestamptz, soon interval)
    returns boolean
    language sql stable parallel safe
    return case view
        when 'urgent' then i.urgency < 2251799813685248 and (
            i.urgency < 1125899906842624
            or i.urgency % 4 = 0
            or i.urgency % 562949953421312 / 4 <= extract(epoch from now + soon)
        )
        when 'approvals' then i.kind = 'approval'
        when 'mine' then i.recipient = person or coalesce(i.taken_by = person and i.taken_until > now, false)
        when 'vote_missing' then i.takes_votes and i.urgency < 2251799813685248
        when 'agents_turn' then i.urgency >= 2251799813685248
        else true
    end;

create function handraise.has_voted(i handraise.inbox, person text) returns boolean
    language sql stable parallel safe
    return exists (
        select from handraise.questions as q
        where q.workspace = i.workspace and q.id = i.question_id and q.votes ? person
    );

-- When the next step of a timeline is due; null if none is left. After a late step, the next one waits at least ten
-- minutes, or as long as was planned between the two if that is less; but never beyond the end, which nothing puts off.
create function handraise.due_at(asked_at timestamptz, stepped_at timestamptz, steps jsonb, steps_taken integer)
    returns timestamptz
    language sql stable parallel safe
    return case when steps_taken < jsonb_array_length(steps) then least(
        greatest(
            asked_at + (steps -> steps_taken ->> 'after')::float8 * interval '1 second',
            case when steps_taken > 0 then stepped_at + least(
                (steps -> steps_taken ->> 'after')::float8 - (steps -> (steps_taken - 1) ->> 'after')::float8, 600
            ) * interval '1 second' end
        ),
        case when steps -> -1 ->> 'do' in ('expire', 'default') then
            asked_at + (steps -> -1 ->> 'after')::float8 * interval '1 second'
        end
    ) end;

-- The same for a pending question: while it is the asker's turn, only its end is due.
create function handraise.next_due_at(
    asked_at timestamptz, stepped_at timestamptz, steps jsonb, steps_taken integer, asked_back integer,
    follows text, expires_at timestamptz
) returns timestamptz
    language sql stable parallel safe
    return case when asked_back > 0 or follows is not null then expires_at else handraise.due_at(asked_at, stepped_at, steps, steps_taken) end;

-- The workspaces in which a step is due, or a question that nobody waits for: one with both may come twice. If few are due, those tell. Otherwise a walk
-- goes from the first step of one workspace to the first of the next, so that one workspace with a million due steps does
-- not hide the others.
create function handraise.due_workspaces(now timestamptz, at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive oldest as materialized (
        select i.workspace
        from handraise.inbox as i
        where i.due_at <= due_workspaces.now
        order by i.due_at
        limit 1000
    ),
    many as materialized (
        select count(*) = 1000 as so from oldest
    ),
    walk (workspace, due_at) as (
        select '' collate "C", null::timestamptz from many where many.so
        union all
        select following.workspace, following.due_at
        from walk
        cross join lateral (
            select i.workspace, i.due_at
            from handraise.inbox as i
            where i.due_at is not null and i.workspace > walk.workspace
            order by i.workspace, i.due_at
            limit 1
        ) as following
    )
    (select distinct oldest.workspace from oldest, many where not many.so)
    union all
    (select walk.workspace from walk where walk.due_at <= due_workspaces.now)
    union all
    (
        select distinct unheard.workspace
        from (
            select i.workspace
            from handraise.inbox as i
            where i.unheard_at <= due_workspaces.now
            order by i.unheard_at
            limit 1000
        ) as unheard
    )
    limit due_workspaces.at_most;
end;


-- == The directory: people, agents, sessions ==

-- `email` is as it was written; `email_folded` is what addresses are compared by. Python folds it, so that it does not
-- depend on the database's locale. `identity` is the account at an OIDC provider that the person first came with: a digest
-- of its issuer and subject. `email_by` chose the address by which that account was found, or will be. `admin_provided` says that they are an administrator because that provider says so. `language`
-- and `time_zone` are what they chose to read in. While they are away, `deputy` answers for them. Since `disabled_at`, they
-- can do nothing here.
create table handraise.people (
    created_at    timestamptz not null,
    signed_in_at  timestamptz,
    away_from     timestamptz,
    away_until    timestamptz,
    disabled_at   timestamptz,
    admin_provided boolean    not null default false,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    role          text        collate "C" not null check (role in ('member', 'admin')),
    name          text        not null,
    email         text        collate "C",
    email_folded  text        collate "C",
    email_by      text        collate "C",
    identity      text        collate "C",
    language      text        collate "C",
    time_zone     text        collate "C",
    deputy        text        collate "C",
    primary key (workspace, id),
    unique (workspace, email_folded),
    check ((email is null) = (email_folded is null)),
    check ((away_from is null) = (away_until is null) and (deputy is null or away_until is not null))
) with (fillfactor = 75);

create index people_away on handraise.people (workspace, away_until) where away_until is not null;
create index people_disabled on handraise.people (workspace, id) where disabled_at is not null;
create index people_by_identity on handraise.people (workspace, identity) where identity is not null;

-- What belongs to a person refers to them, so that nothing of it is left if they are removed and come back. `provided` says
-- that the membership comes from the OIDC provider, which can end it.
create table handraise.members (
    provided      boolean     not null default false,
    workspace     text        collate "C" not null,
    group_name    text        collate "C" not null,
    person        text        collate "C" not null,
    primary key (workspace, group_name, person),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index members_by_person on handraise.members (workspace, person);

create policy counted on handraise.members for select to current_user using (true);

-- When a group works, and the calendar that says who of it is on duty; without a name, those of the workspace. `rota` is an
-- address or `file`, `ics` its text as it was last fetched, and `shifts` who is on duty when, around that time.
create table handraise.calendars (
    fetched_at    timestamptz,
    tried_at      timestamptz,
    workspace     text        collate "C" not null,
    group_name    text        collate "C" not null,
    rota          text        collate "C",
    hours         text,
    ics           text,
    shifts        text,
    problem       text,
    primary key (workspace, group_name)
);

-- The groups of a person, as a JSON array.
create function handraise.groups_of(workspace text, person text) returns json
    language sql stable parallel safe
    return (
        select coalesce(json_agg(m.group_name order by m.group_name), '[]')
        from handraise.members as m
        where m.workspace = groups_of.workspace and m.person = groups_of.person
    );

create table handraise.agent_keys (
    created_at    timestamptz not null,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    agent         text        collate "C" not null,
    created_by    text        collate "C" not null,
    revoked_by    text        collate "C",
    primary key (workspace, id),
    unique (workspace, digest)
) with (fillfactor = 75);

-- `vouched_by` is who made the link that the session began with, if that was somebody else. `provider_session` is a digest of
-- the OIDC provider's issuer and of its own session, with which the provider can end this one.
create table handraise.sessions (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    person        text        collate "C" not null,
    how           text        collate "C" not null,
    vouched_by    text        collate "C",
    provider_session text     collate "C",
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index sessions_by_person on handraise.sessions (workspace, person);
create index sessions_by_provider on handraise.sessions (workspace, provider_session) where provider_session is not null;
create index sessions_by_end on handraise.sessions (expires_at);

create policy found_when_over on handraise.sessions for select to current_user using (true);
create policy forgotten on handraise.sessions for delete to current_user using (true);

-- The passkeys of people. `public_key` is a COSE key in base64url, `domain` is where it works, and `vouched_by` is that of the
-- session in which it was registered.
create table handraise.passkeys (
    created_at    timestamptz not null,
    last_used_at  timestamptz,
    sign_count    bigint      not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    person        text        collate "C" not null,
    name          text        not null,
    domain        text        collate "C" not null,
    public_key    text        collate "C" not null,
    vouched_by    text        collate "C",
    primary key (workspace, id),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index passkeys_by_person on handraise.passkeys (workspace, person);

-- What makes each signature of a passkey work once: a nonce that was used is deleted.
create table handraise.passkey_nonces (
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    person        text        collate "C" not null,
    primary key (workspace, id),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index passkey_nonces_by_person on handraise.passkey_nonces (workspace, person);

-- The views that people saved for their own lists. `query` is the query of the list's address.
create table handraise.saved_views (
    created_at    timestamptz not null,
    workspace     text        collate "C" not null,
    person        text        collate "C" not null,
    name          text        collate "C" not null,
    query         text        not null,
    primary key (workspace, person, name),
    foreign key (workspace, person) references handraise.people on delete cascade
);

-- What a provider wrote over SCIM about a person or a group. `name_folded` is what their names there are compared by.
create table handraise.provisioned (
    created_at    timestamptz not null,
    changed_at    timestamptz not null,
    workspace     text        collate "C" not null,
    kind          text        collate "C" not null check (kind in ('User', 'Group')),
    id            text        collate "C" not null,
    name_folded   text        collate "C" not null,
    document      json        not null,
    primary key (workspace, kind, id),
    unique (workspace, kind, name_folded)
);

-- A link that was used is deleted.
create table handraise.links (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    person        text        collate "C" not null,
    purpose       text        collate "C" not null check (purpose in ('invitation', 'sign-in')),
    vouched_by    text        collate "C",
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index links_by_person on handraise.links (workspace, person);
create index links_by_end on handraise.links (expires_at);

create policy found_when_over on handraise.links for select to current_user using (true);
create policy forgotten on handraise.links for delete to current_user using (true);

-- A link with which one person answers one question. It can be opened any number of times until it expires.
create table handraise.question_links (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    question_id   text        collate "C" not null,
    person        text        collate "C" not null,
    channel       text        collate "C" not null,
    created_by    text        collate "C" not null,
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index question_links_by_question on handraise.question_links (workspace, question_id);
create index question_links_by_person on handraise.question_links (workspace, person);
create index question_links_by_end on handraise.question_links (expires_at);

create policy found_when_over on handraise.question_links for select to current_user using (true);
create policy forgotten on handraise.question_links for delete to current_user using (true);

-- Requests by their idempotency keys. `turns` counts how often one was taken on; it is finished once it has a status.
create table handraise.requests (
    began_at      timestamptz not null,
    turns         integer     not null default 1,
    status        integer,
    released      boolean     not null default false,
    workspace     text        collate "C" not null,
    actor         text        collate "C" not null,
    key           text        collate "C" not null,
    fingerprint   text        collate "C" not null,
    made          text        collate "C" not null,
    body          text,
    primary key (workspace, actor, key),
    check ((status is null) = (body is null))
) with (fillfactor = 75);

create index requests_by_beginning on handraise.requests (began_at);

create policy found_when_over on handraise.requests for select to current_user using (true);
create policy forgotten on handraise.requests for delete to current_user using (true);

-- Delete requests, links and sessions that ended before an instant, at most so many of each, and return how many. The
-- time is compared twice: a request may be taken on again between being found and being deleted.
create function handraise.forget(before timestamptz, at_most integer) returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    with old_requests as (
        delete from handraise.requests as r
        where r.began_at < forget.before and r.ctid = any (array(
            select o.ctid from handraise.requests as o
            where o.began_at < forget.before order by o.began_at limit forget.at_most
        ))
        returning 1
    ),
    old_links as (
        delete from handraise.links as l
        where l.expires_at < forget.before and l.ctid = any (array(
            select o.ctid from handraise.links as o
            where o.expires_at < forget.before order by o.expires_at limit forget.at_most
        ))
        returning 1
    ),
    old_sessions as (
        delete from handraise.sessions as s
        where s.expires_at < forget.before and s.ctid = any (array(
            select o.ctid from handraise.sessions as o
            where o.expires_at < forget.before order by o.expires_at limit forget.at_most
        ))
        returning 1
    )
    select (select count(*) from old_requests) + (select count(*) from old_links)
        + (select count(*) from old_sessions);
end;

-- The same for question links.
create function handraise.forget_question_links(before timestamptz, at_most integer) returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    with old as (
        delete from handraise.question_links as l
        where l.expires_at < forget_question_links.before and l.ctid = any (array(
            select o.ctid from handraise.question_links as o
            where o.expires_at < forget_question_links.before
            order by o.expires_at limit forget_question_links.at_most
        ))
        returning 1
    )
    select count(*) from old;
end;


-- == Topics: one answer for equal questions ==

-- Ask the oldest of the questions that follow one that is over; the others follow that one.
create function handraise.open_next(workspace text, over text, topic_key text, at timestamptz) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    next_id text;
begin
    select q.id into next_id
    from handraise.inbox as i
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = open_next.workspace and i.follows = over and q.status = 'pending'
    order by q.id
    limit 1
    for update of q;
    if next_id is null then
        return;
    end if;
    update handraise.questions as q
    set follows = nullif(next_id, q.id)
    from handraise.inbox as i
    where i.workspace = open_next.workspace and i.follows = over and q.workspace = i.workspace and q.id = i.question_id;
    -- The topic's row of the one that has ended may still be there until this statement ends.
    delete from handraise.inbox as i where i.workspace = open_next.workspace and i.question_id = over;
    update handraise.inbox as i
    set follows = next_id
    where i.workspace = open_next.workspace and i.follows = over and i.question_id <> next_id;
    update handraise.inbox as i
    set follows = null,
        topic_key = case when i.main then open_next.topic_key end,
        open = i.step is null,
        due_at = case
            when i.main
                then handraise.next_due_at(
                    q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, null, q.expires_at
                )
        end
    from handraise.questions as q
    where i.workspace = open_next.workspace and i.question_id = next_id and q.workspace = i.workspace and q.id = i.question_id;
    insert into handraise.events (at, workspace, question_id, kind)
    values (open_next.at, open_next.workspace, next_id, 'opened');
end
$$;


-- == Groups ==

-- The advisory lock that is held to change a group.
create function handraise.group_lock(workspace text, group_name text) returns bigint
    language sql stable parallel safe
    return hashtextextended(json_build_array(workspace, group_name)::text, 0);

-- == Deliveries: who has to be told ==

-- Where recipients can be reached: a person, a group ('group:ops') or anyone ('*').
create table handraise.addresses (
    workspace     text        collate "C" not null,
    recipient     text        collate "C" not null,
    channel       text        collate "C" not null,
    id            text        collate "C" not null,
    destination   json        not null,
    primary key (workspace, recipient, channel, id)
);

create index addresses_by_id on handraise.addresses (workspace, channel, id);

create table handraise.routing (
    workspace     text        collate "C" primary key,
    policy        json        not null
);

-- Events that nobody has been told of yet.
create table handraise.outbox (
    at            timestamptz not null,
    number        bigint      generated always as identity,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    kind          text        collate "C" not null,
    data          jsonb,
    primary key (workspace, number)
);

create policy seen_when_due on handraise.outbox for select to current_user using (true);

-- Attempts to reach people, and callbacks to askers. A callback is stored with its question and is due at its end. A
-- delivery that is being tried is due again when its lease ends; `due_at` is null if nothing is left to do.
create table handraise.deliveries (
    due_at        timestamptz,
    created_at    timestamptz not null,
    sent_at       timestamptz,
    tries         integer     not null default 0,
    turn          integer     not null default 0,
    stale         boolean     not null default false,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    question_id   text        collate "C" not null,
    recipient     text        collate "C" not null,
    channel       text        collate "C" not null,
    status        text        collate "C" not null default 'queued',
    asker         text        collate "C" not null,
    reason        text        collate "C" not null,
    rate_limit_key text       collate "C" not null,
    bundle        text        collate "C",
    destination   json        not null,
    receipt       json,
    problem       text,
    primary key (workspace, id),
    check (status in ('queued', 'sent', 'updated', 'unsent', 'failed', 'unknown', 'waiting'))
) with (fillfactor = 75);

create index deliveries_by_due on handraise.deliveries (due_at) where due_at is not null;
create index deliveries_by_workspace_and_due on handraise.deliveries (workspace, due_at) where due_at is not null;
-- With the id: what waited for the same hour, of many people, is due at the same instant.
create index deliveries_by_rate_limit_key on handraise.deliveries (workspace, channel, rate_limit_key, due_at, id)
    where due_at is not null;
create index deliveries_by_question on handraise.deliveries (workspace, question_id);
create index deliveries_by_bundle on handraise.deliveries (workspace, bundle) where bundle is not null;
create index deliveries_by_creation on handraise.deliveries (workspace, created_at);
create index deliveries_failed on handraise.deliveries (workspace, created_at) where status = 'failed' and not stale;
create index deliveries_failed_by_channel on handraise.deliveries (workspace, channel, created_at)
    where status = 'failed' and not stale;
create index deliveries_retried on handraise.deliveries (workspace, created_at)
    where due_at is not null and problem is not null and not stale;
create index deliveries_retried_by_channel on handraise.deliveries (workspace, channel, created_at)
    where due_at is not null and problem is not null and not stale;

create policy counted on handraise.deliveries for select to current_user using (true);

-- An event puts an entry into the outbox in its own transaction, if the workspace has any address at all, or if the event
-- ends a question that somebody was told of, or reports what came of it. A vote that opens another stage names who is
-- asked then; a note names its author, who is not told.
create function handraise.add_outbox_entry() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    insert into handraise.outbox (at, workspace, question_id, kind, data)
    select
        e.at, e.workspace, e.question_id, e.kind,
        case
            when e.kind in ('escalated', 'voted') then jsonb_build_object('to', e.data -> 'to')
            when e.kind in ('brought_in', 'handed_over') then jsonb_build_object('to', e.data -> 'to', 'by', e.actor)
            when e.kind = 'noted' then jsonb_build_object('by', e.actor)
        end
    from happened as e
    where (
            e.kind in (
                'asked', 'reminded', 'escalated', 'noted', 'replied', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted',
                'returned', 'reported', 'brought_in', 'handed_over', 'opened'
            )
            or e.kind = 'voted' and e.data ? 'to'
        )
        and (
            exists (select from handraise.addresses as a where a.workspace = e.workspace)
            or e.kind not in ('asked', 'reminded', 'escalated', 'noted', 'replied', 'voted', 'brought_in', 'handed_over', 'opened')
                and exists (
                select from handraise.deliveries as d
                where d.workspace = e.workspace and d.question_id = e.question_id
            )
        );
    return null;
end
$$;

create trigger add_outbox_entry after insert on handraise.events
    referencing new table as happened
    for each statement
    when (current_setting('handraise.importing', true) is distinct from 'on')
    execute function handraise.add_outbox_entry();

-- The workspaces that have entries, walking from one to the next.
create function handraise.workspaces_with_entries(at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive walk (workspace) as (
        (select o.workspace from handraise.outbox as o order by o.workspace limit 1)
        union all
        select (
            select o.workspace from handraise.outbox as o
            where o.workspace > walk.workspace order by o.workspace limit 1
        )
        from walk
        where walk.workspace is not null
    )
    select walk.workspace from walk where walk.workspace is not null limit workspaces_with_entries.at_most;
end;

-- The workspaces in which a group has a rota. A server looks for those that it must fetch.
create function handraise.workspaces_with_rotas(at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select distinct c.workspace
    from handraise.calendars as c
    where c.rota is not null
    order by c.workspace
    limit workspaces_with_rotas.at_most;
end;

-- The workspaces in which a delivery is due. As in `due_workspaces`, many of one do not hide the others.
create function handraise.workspaces_with_due(now timestamptz, at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive oldest as materialized (
        select d.workspace
        from handraise.deliveries as d
        where d.due_at <= workspaces_with_due.now
        order by d.due_at
        limit 1000
    ),
    many as materialized (
        select count(*) = 1000 as so from oldest
    ),
    walk (workspace, due_at) as (
        select '' collate "C", null::timestamptz from many where many.so
        union all
        select following.workspace, following.due_at
        from walk
        cross join lateral (
            select d.workspace, d.due_at
            from handraise.deliveries as d
            where d.due_at is not null and d.workspace > walk.workspace
            order by d.workspace, d.due_at
            limit 1
        ) as following
    )
    (select distinct oldest.workspace from oldest, many where not many.so)
    union all
    (select walk.workspace from walk where walk.due_at <= workspaces_with_due.now)
    limit workspaces_with_due.at_most;
end;

-- How many pending questions are at most so old, for each age in seconds; how many deliveries have each status; for how
-- many seconds the oldest delivery, or entry that may lead to one, is due; how many askers have as many pending questions
-- as the quota allows; and how many pending questions nobody can answer, because no recipient, now or after an escalation,
-- is a person who is enabled, a group with one, or somebody who is reached in a chat.
create function handraise.queue_stats(
    now timestamptz, ages double precision[], quota bigint,
    out pending bigint[], out deliveries json, out oldest_due double precision, out askers_at_quota bigint,
    out unanswerable bigint
)
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with counted as materialized (
        select i.workspace, i.question_id, i.asker from handraise.inbox as i where i.main limit 100000
    ),
    named as (
        select p.workspace, p.id as recipient from handraise.people as p where p.disabled_at is null
        union
        select m.workspace, 'group:' || m.group_name
        from handraise.members as m
        join handraise.people as p on p.workspace = m.workspace and p.id = m.person
        where p.disabled_at is null
        union
        select a.workspace, a.recipient
        from handraise.addresses as a
        where not exists (
            select
            from handraise.people as p
            where p.workspace = a.workspace and p.id = a.recipient and p.disabled_at is not null
        )
    ),
    able as materialized (
        select named.workspace, named.recipient from named
        union
        select named.workspace, '*' from named
    ),
    unanswerable as (
        select from counted
        join handraise.inbox as i on i.workspace = counted.workspace and i.question_id = counted.question_id
        group by i.workspace, i.question_id
        having not bool_or((i.workspace, i.recipient) in (select able.workspace, able.recipient from able))
    ),
    aged as materialized (
        select extract(epoch from queue_stats.now - q.asked_at)::double precision as age
        from counted
        join handraise.questions as q on q.workspace = counted.workspace and q.id = counted.question_id
    ),
    at_quota as (
        select from counted
        where queue_stats.quota is not null
        group by counted.workspace, counted.asker
        having count(*) >= queue_stats.quota
    ),
    due as (
        (select d.due_at as at from handraise.deliveries as d where d.due_at is not null order by d.due_at limit 1)
        union all
        select min(entry.at) from (select o.at from handraise.outbox as o limit 100000) as entry
    ),
    sent as (
        select counted.status, count(*) as number
        from (select d.status from handraise.deliveries as d limit 100000) as counted
        group by counted.status
    )
    select
        array(
            select (select count(*) from aged where aged.age <= a.age)
            from unnest(queue_stats.ages) with ordinality as a (age, place)
            order by a.place
        ),
        (select coalesce(json_object_agg(sent.status, sent.number), '{}') from sent),
        (
            select greatest(coalesce(extract(epoch from queue_stats.now - min(due.at)), 0), 0)::double precision
            from due
        ),
        (select count(*) from at_quota),
        (select count(*) from unanswerable);
end;


-- == What does not change ==

-- What was asked and how it ended never changes (P6), by whatever statement.
create function handraise.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'what was asked, and how it ended, does not change: %', tg_argv[0] using errcode = 'HR004';
end
$$;

-- No statement of a server names these columns, so the triggers cost nothing there. What may change after the end is not among them: `consumed_at` once, `taken_back_at` once and only until it
-- is consumed, `reported_at` with `report` once, `replaced_by` once, `unreached_at`. A question may also be removed or erased.
create trigger asked_stays before update of id, asked_at, asker, key, conversation, tool_call, recipients, quorum, veto,
    max_attempts, prompt, form, context, state, steps, undo_for, heartbeat, replies, replaces, topic, needs, evidence, ruling,
    attachments on handraise.questions
    for each row when (
        (old.id, old.asked_at, old.asker, old.key, old.conversation, old.tool_call, old.recipients, old.quorum, old.veto,
            old.max_attempts, old.prompt, old.form::text, old.context::text, old.state::text, old.steps, old.undo_for,
            old.heartbeat, old.replies, old.replaces, old.topic, old.needs, old.evidence, old.ruling::text,
            old.attachments::text)
        is distinct from
        (new.id, new.asked_at, new.asker, new.key, new.conversation, new.tool_call, new.recipients, new.quorum, new.veto,
            new.max_attempts, new.prompt, new.form::text, new.context::text, new.state::text, new.steps, new.undo_for,
            new.heartbeat, new.replies, new.replaces, new.topic, new.needs, new.evidence, new.ruling::text,
            new.attachments::text)
    )
    execute function handraise.refuse_change('asked');

create trigger settled_stays before update of status, settled_at, outcome, votes, missing, thread on handraise.questions
    for each row when (
        old.status <> 'pending'
        and (old.status, old.settled_at, old.outcome::text, old.votes, old.missing, old.thread)
        is distinct from (new.status, new.settled_at, new.outcome::text, new.votes, new.missing, new.thread)
    )
    execute function handraise.refuse_change('settled');

create trigger consumed_stays before update of consumed_at on handraise.questions
    for each row when (old.consumed_at is not null and new.consumed_at is distinct from old.consumed_at)
    execute function handraise.refuse_change('consumed');

create trigger taken_back_stays before update of consumed_at, taken_back_at on handraise.questions
    for each row when (
        old.taken_back_at is not null and new.taken_back_at is distinct from old.taken_back_at
        or new.taken_back_at is not null and new.consumed_at is not null
    )
    execute function handraise.refuse_change('taken back');

create trigger replaced_stays before update of replaced_by on handraise.questions
    for each row when (old.replaced_by is not null and new.replaced_by is distinct from old.replaced_by)
    execute function handraise.refuse_change('replaced');

create trigger report_stays before update of reported_at, report on handraise.questions
    for each row when (
        old.reported_at is not null
        and (old.reported_at, old.report::text) is distinct from (new.reported_at, new.report::text)
    )
    execute function handraise.refuse_change('reported');


-- == The numbering of events ==

-- By whose transactions events are numbered. The epoch counts how often numbering had to get ahead of what was there: when a
-- workspace was imported here, or when a dump was restored in another cluster.
create table handraise.numbering (
    only_one      boolean     primary key default true check (only_one),
    epoch         integer     not null default 0,
    cluster       text        collate "C"
);

-- The name that a cluster has for life; null if we may not read it.
create function handraise.cluster() returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return (select system_identifier::text from pg_control_system());
exception when insufficient_privilege then
    return null;
end
$$;

insert into handraise.numbering (cluster) values (handraise.cluster());

-- The transaction below which every event of every feed is there for good. Events are numbered after the epoch, so that
-- those to come are after those that were imported.
create function handraise.feed_edge() returns xid8
    language sql stable parallel safe
begin atomic
    select coalesce(
        (
            select ((n.epoch::bigint << 44) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text::xid8
            from handraise.numbering as n
            where n.epoch > 0
        ),
        pg_snapshot_xmin(pg_current_snapshot())
    );
end;

-- Get ahead of all events of lower epochs. The lock lets every transaction finish that numbers events by the old epoch.
create function handraise.raise_epoch(at_least integer) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    lock table handraise.events in access exclusive mode;
    update handraise.numbering set epoch = at_least where epoch < at_least;
    if found then
        execute format(
            'alter table handraise.events alter column transaction
            set default ((%s + pg_current_xact_id()::text::bigint)::text::xid8)',
            at_least::bigint << 44
        );
    end if;
end
$$;

-- Go on in this cluster, whose transactions may have lower numbers than those of the cluster that was dumped.
create function handraise.move_in() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    update handraise.numbering set cluster = handraise.cluster() where cluster <> handraise.cluster();
    if found then
        perform handraise.raise_epoch(epoch + 1) from handraise.numbering;
    end if;
end
$$;


-- == The audit trail ==

-- A batch of events and removals, chained to the one before. `leaves` are digests of 32 bytes, one after the other;
-- `cursors` are the places of the events, so that a leaf is known when its event is gone.
create table handraise.seals (
    number           bigint      not null,
    oldest           bigint      not null,
    last_transaction xid8        not null,
    last_number      bigint      not null,
    sealed_at        timestamptz not null,
    workspace        text        collate "C" not null,
    previous         bytea       not null,
    leaves           bytea       not null,
    cursors          text        not null,
    signature        bytea,
    key_id           text        collate "C",
    primary key (workspace, number)
);

create index seals_by_key on handraise.seals (workspace, key_id) where key_id is not null;

create policy seen_when_sealed on handraise.seals for select to current_user using (true);

-- What the digests of a question's events are salted with. It is deleted with the question.
create table handraise.salts (
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    salt          bytea       not null,
    primary key (workspace, question_id)
);

-- Questions that are gone, with the places of their events, and the seal that says so once there is one.
create table handraise.removals (
    number        bigint      generated always as identity,
    seal          bigint,
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    what          text        collate "C" not null check (what in ('erased', 'removed')),
    actor         text        collate "C",
    cursors       text        not null,
    primary key (workspace, number)
);

create index removals_unsealed on handraise.removals (workspace, number) where seal is null;
create index removals_by_seal on handraise.removals (workspace, seal, number) where seal is not null;

create policy seen_when_sealed on handraise.removals for select to current_user using (seal is null);

-- How long a workspace keeps settled questions, if it has a rule of its own; null is for ever.
create table handraise.retention (
    keep          interval,
    workspace     text        collate "C" primary key
);

create policy seen_when_over on handraise.retention for select to current_user using (true);

-- The versions of a workspace's policy. The latest applies.
create table handraise.policies (
    at            timestamptz not null,
    version       integer     not null,
    workspace     text        collate "C" not null,
    actor         text        collate "C",
    document      json        not null,
    primary key (workspace, version)
);

-- Rules that do not allow anything any more, because a person denied a question that was a spot check. `rule` is the
-- digest of the rule: a rule that is written differently is another one.
create table handraise.rule_suspensions (
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    rule          text        collate "C" not null,
    question_id   text        collate "C" not null,
    actor         text        collate "C",
    primary key (workspace, rule)
);

-- What is stopped: an agent, a tool, a tool of an agent, or with neither the whole workspace.
create table handraise.stops (
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    agent         text        collate "C",
    tool          text        collate "C",
    actor         text        collate "C",
    why           text        not null,
    primary key (workspace, id)
);

create unique index stops_by_scope on handraise.stops (workspace, coalesce(agent, ''), coalesce(tool, ''));

-- How many pending questions an agent may have, or with an empty name every agent without its own; 0 is any number.
create table handraise.quotas (
    workspace     text        collate "C" not null,
    agent         text        collate "C" not null,
    pending       bigint      not null,
    primary key (workspace, agent)
);

-- What was uploaded. `owner` is 'asker:' with the name of an asker, or 'person:' with the id of a person: only they can refer to
-- it. It can be used once its bytes are `stored`, and until it is `removed_at`; then its bytes are deleted. `referred` says that
-- a question may refer to it.
create table handraise.files (
    used_at       timestamptz not null,
    removed_at    timestamptz,
    size          bigint      not null,
    stored        boolean     not null default false,
    referred      boolean     not null default false,
    workspace     text        collate "C" not null,
    key           text        collate "C" not null,
    owner         text        collate "C" not null,
    digest        text        collate "C" not null,
    media_type    text        collate "C" not null,
    primary key (workspace, key)
);

create index files_by_owner on handraise.files (workspace, owner, digest);
create index files_unused on handraise.files (used_at) where not referred;

create policy found_when_unused on handraise.files for select to current_user using (true);

-- Which question refers to which file. It is written before the question is: `checked` says that the question was found later.
create table handraise.file_references (
    at            timestamptz not null,
    checked       boolean     not null default false,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    key           text        collate "C" not null,
    primary key (workspace, question_id, key)
);

create index file_references_by_key on handraise.file_references (workspace, key);
create index file_references_unchecked on handraise.file_references (at) where not checked;

create policy found_when_unchecked on handraise.file_references for select to current_user using (true);

-- The bytes of files, in parts, unless they are kept elsewhere.
create table handraise.blobs (
    place         integer     not null,
    workspace     text        collate "C" not null,
    key           text        collate "C" not null,
    data          bytea       not null,
    primary key (workspace, key, place)
);

-- Files are mostly compressed already.
alter table handraise.blobs alter column data set storage external;

-- Delete the bytes of a file that is removed. A server cannot delete those of another one.
create function handraise.drop_blob(workspace text, key text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.set_workspace(drop_blob.workspace);
    delete from handraise.blobs as b
    where b.workspace = drop_blob.workspace and b.key = drop_blob.key and exists (
        select from handraise.files as f
        where f.workspace = drop_blob.workspace and f.key = drop_blob.key and f.removed_at is not null
    );
end
$$;

-- Forget a file whose bytes are deleted.
create function handraise.forget_file(workspace text, key text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.drop_blob(forget_file.workspace, forget_file.key);
    delete from handraise.files as f
    where f.workspace = forget_file.workspace and f.key = forget_file.key and f.removed_at is not null;
end
$$;

-- Remove the references of questions, and the bytes to which nothing else refers. The caller has entered the workspace.
create function handraise.remove_references(workspace text, ids text[], now timestamptz) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    keys text[];
begin
    with gone as (
        delete from handraise.file_references as r
        where r.workspace = remove_references.workspace and r.question_id = any (remove_references.ids)
        returning r.key
    )
    select array_agg(distinct gone.key) into keys from gone;
    if keys is null then
        return;
    end if;
    -- Who refers to one of them at the same time has locked it, or waits until it is removed.
    perform from handraise.files as f
    where f.workspace = remove_references.workspace and f.key = any (keys)
    order by f.key
    for update;
    update handraise.files as f
    set referred = false, used_at = '-infinity', removed_at = coalesce(f.removed_at, remove_references.now)
    where f.workspace = remove_references.workspace and f.key = any (keys) and not exists (
        select from handraise.file_references as r where r.workspace = f.workspace and r.key = f.key
    );
    delete from handraise.blobs as b
    using handraise.files as f
    where b.workspace = remove_references.workspace and b.key = any (keys)
        and f.workspace = b.workspace and f.key = b.key and f.removed_at is not null;
end
$$;

-- Mark the files that nothing refers to, in all workspaces, and return those whose bytes are to be deleted. A reference to a
-- question that was never stored does not count.
create function handraise.take_unused_files(now timestamptz, before timestamptz, at_most integer)
    returns table (place text, name text)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspaces', true), '');
    old record;
    gone bigint;
begin
    for old in
        (select r.workspace from handraise.file_references as r where not r.checked and r.at < before limit at_most)
        union
        (select f.workspace from handraise.files as f where not f.referred and f.used_at < before limit at_most)
    loop
        perform handraise.set_workspace(old.workspace);
        delete from handraise.file_references as r
        where r.workspace = old.workspace and not r.checked and r.at < before
            and not exists (
                select from handraise.questions as q where q.workspace = r.workspace and q.id = r.question_id
            );
        get diagnostics gone = row_count;
        update handraise.file_references as r set checked = true
        where r.workspace = old.workspace and not r.checked and r.at < before;
        if gone > 0 then
            update handraise.files as f set referred = false
            where f.workspace = old.workspace and f.referred and f.used_at < before and not exists (
                select from handraise.file_references as r where r.workspace = f.workspace and r.key = f.key
            );
        end if;
        -- Who refers to a file makes it used and referred, so this is decided again for a file that was locked.
        update handraise.files as f set removed_at = now
        where f.workspace = old.workspace and not f.referred and f.used_at < before and f.removed_at is null
            and not exists (
                select from handraise.file_references as r where r.workspace = f.workspace and r.key = f.key
            );
        return query
        select f.workspace, f.key
        from handraise.files as f
        where f.workspace = old.workspace and not f.referred and f.used_at < before and f.removed_at is not null
        order by f.used_at
        limit at_most;
    end loop;
    perform set_config('handraise.workspaces', home, true);
end
$$;

-- What is neither removed nor erased: a whole workspace, or one question of it.
create table handraise.holds (
    since         timestamptz not null,
    workspace     text        collate "C" not null,
    name          text        collate "C" not null,
    question_id   text        collate "C",
    reason        text        not null,
    actor         text        collate "C" not null,
    primary key (workspace, name)
);

create policy seen_when_over on handraise.holds for select to current_user using (true);

-- The advisory lock that keeps sealing and removing apart.
create function handraise.seal_lock(workspace text) returns bigint
    language sql immutable parallel safe
    return hashtextextended('handraise seal ' || workspace, 0);

-- The workspaces with events or removals that no seal covers, walking from one to the next. Events are looked at inside one
-- workspace after the other, as the owner is bound by row-level security too.
create function handraise.unsealed_workspaces(at_most integer) returns setof text
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspaces', true), '');
    walked text := '';
    behind boolean;
    found_so_far integer := 0;
begin
    loop
        select least(
            (
                select q.workspace from handraise.questions as q
                where q.workspace > walked order by q.workspace limit 1
            ),
            (
                select r.workspace from handraise.removals as r
                where r.seal is null and r.workspace > walked order by r.workspace limit 1
            ),
            (
                select e.workspace from handraise.events as e
                where e.question_id = '' and e.workspace > walked order by e.workspace limit 1
            )
        )
        into walked;
        exit when walked is null or found_so_far >= at_most;
        perform handraise.set_workspace(walked);
        select
            exists (select from handraise.removals as r where r.workspace = walked and r.seal is null)
            or coalesce(
                (newest.transaction, newest.number) > (sealed.last_transaction, sealed.last_number),
                newest.number is not null
            )
        into behind
        from (select) as one
        left join lateral (
            select e.transaction, e.number
            from handraise.events as e
            where e.workspace = walked
            order by e.transaction desc, e.number desc
            limit 1
        ) as newest on true
        left join lateral (
            select s.last_transaction, s.last_number
            from handraise.seals as s
            where s.workspace = walked
            order by s.number desc
            limit 1
        ) as sealed on true;
        if behind and not exists (select from handraise.imports as i where i.workspace = walked) then
            found_so_far := found_so_far + 1;
            return next walked;
        end if;
    end loop;
    perform set_config('handraise.workspaces', home, true);
end
$$;

-- Add a seal and return true, unless its number is taken or its events are not all there. What the store knows, it computes
-- itself: where the seal goes on, which events it covers, and which seals are dropped. `after_transaction`,
-- `after_number` and `events` are ignored.
create function handraise.append_seal(
    workspace text, number bigint, oldest bigint, after_transaction xid8, after_number bigint, last_transaction xid8,
    last_number bigint, sealed_at timestamptz, previous bytea, leaves bytea, cursors text, events bigint,
    signature bytea, key_id text, removals bigint[]
) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    last record;
    behind text;
    found_events bigint;
    needed bigint;
    covered bigint;
begin
    if not pg_try_advisory_xact_lock(handraise.seal_lock(append_seal.workspace)) then
        return false;
    end if;
    perform handraise.set_workspace(append_seal.workspace);
    select s.number, s.oldest, s.last_transaction, s.last_number, s.key_id into last
    from handraise.seals as s
    where s.workspace = append_seal.workspace
    order by s.number desc
    limit 1;
    if append_seal.number <> coalesce(last.number, 0) + 1 or (last.key_id is not null and append_seal.key_id is null) then
        return false;
    end if;
    select
        count(*), coalesce(
            string_agg(handraise.cursor_text(e.transaction, e.number), ',' order by e.transaction, e.number), ''
        )
    into found_events, behind
    from handraise.events as e
    where e.workspace = append_seal.workspace
        and (e.transaction, e.number) > (coalesce(last.last_transaction, '0'::xid8), coalesce(last.last_number, 0))
        and (e.transaction, e.number) <= (append_seal.last_transaction, append_seal.last_number);
    if behind <> append_seal.cursors or (append_seal.last_transaction, append_seal.last_number)
        < (coalesce(last.last_transaction, '0'::xid8), coalesce(last.last_number, 0)) then
        return false;
    end if;
    select s.number into needed
    from handraise.seals as s
    where s.workspace = append_seal.workspace
        and (s.last_transaction, s.last_number) >= (
            select e.transaction, e.number
            from handraise.events as e
            where e.workspace = append_seal.workspace
            order by e.transaction, e.number
            limit 1
        )
    order by s.number
    limit 1;
    if append_seal.oldest < coalesce(last.oldest, 1)
        or append_seal.oldest > least(coalesce(needed, append_seal.number), append_seal.number) then
        return false;
    end if;
    select count(*) into covered
    from handraise.removals as r
    where r.workspace = append_seal.workspace and r.seal is null and r.number = any (append_seal.removals);
    if covered <> cardinality(append_seal.removals) or octet_length(append_seal.leaves) <> 32 * (found_events + covered) then
        return false;
    end if;
    insert into handraise.seals (
        number, oldest, last_transaction, last_number, sealed_at, workspace, previous, leaves, cursors, signature,
        key_id
    )
    values (
        append_seal.number, append_seal.oldest, append_seal.last_transaction, append_seal.last_number,
        append_seal.sealed_at, append_seal.workspace, append_seal.previous, append_seal.leaves, append_seal.cursors,
        append_seal.signature, append_seal.key_id
    );
    update handraise.removals as r set seal = append_seal.number
    where r.workspace = append_seal.workspace and r.seal is null and r.number = any (append_seal.removals);
    delete from handraise.removals as r
    where r.workspace = append_seal.workspace and r.seal < append_seal.oldest;
    delete from handraise.seals as s
    where s.workspace = append_seal.workspace and s.number < append_seal.oldest;
    return true;
end
$$;

-- Note that questions go whose events are still there, if the workspace is sealed.
create function handraise.note_removals(workspace text, ids text[], what text, actor text, at timestamptz)
    returns void
    language sql set search_path = pg_catalog, pg_temp
begin atomic
    insert into handraise.removals (at, workspace, question_id, what, actor, cursors)
    select
        note_removals.at, e.workspace, e.question_id, note_removals.what, note_removals.actor,
        string_agg(handraise.cursor_text(e.transaction, e.number), ',' order by e.transaction, e.number)
    from handraise.events as e
    where e.workspace = note_removals.workspace and e.question_id = any (note_removals.ids)
        and exists (select from handraise.seals as s where s.workspace = note_removals.workspace)
    group by e.workspace, e.question_id;
end;


-- == Full-text search ==

-- The words of each question, and tags that say where it belongs and who may ever see it. A tag begins with '=', which no
-- word does. Python makes the words, so that all engines find the same. A worker fills this from the events, beside the
-- statements that ask and settle, and a search first has its workspace brought up to date.
create table handraise.search_entries (
    workspace     text     collate "C" not null,
    question_id   text     collate "C" not null,
    words         tsvector not null,
    primary key (workspace, question_id)
);

-- Without a list of what is not in the index yet: a search would have to read that too.
create index search_entries_by_words on handraise.search_entries using gin (words) with (fastupdate = off);

-- Row-level security keeps a search from using the index, as its operator is not known to be safe. So `find_words` looks as
-- the owner, and keeps to the workspace itself.
create policy found_by_words on handraise.search_entries for select to current_user using (true);

-- Up to which event a workspace is in the index.
create table handraise.search_progress (
    transaction   xid8   not null,
    number        bigint not null,
    workspace     text   collate "C" primary key
);

-- The newest questions of a workspace, before an id, that fit a query. First the newest `walked` are read one by one, and if a
-- tenth of what is wanted is among them, up to ten times as many: a frequent word is found there. For what is rarer, the index
-- is the faster way; for a frequent word it would return nearly all questions.
create function handraise.find_words(workspace text, query tsquery, before text, wanted integer, walked integer)
    returns setof text
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_custom_plan
    set enable_seqscan = off
    set enable_indexscan = on
    set enable_bitmapscan = off
    set enable_sort = on
    set work_mem = '32MB'
as $$
declare
    -- If workspaces are set, then only in those.
    home text := case
        when coalesce(current_setting('handraise.workspaces', true), '') = '' or handraise.is_visible(find_words.workspace)
            then find_words.workspace
    end;
    edge text := find_words.before;
    steps integer[] := array[find_words.walked, 9 * find_words.walked];
    step integer;
    walked_to text;
    found_so_far text[] := '{}';
begin
    foreach step in array steps loop
        walked_to := null;
        select n.question_id into walked_to
        from handraise.search_entries as n
        where n.workspace = home and (edge is null or n.question_id < edge)
        order by n.question_id desc
        offset step - 1
        limit 1;
        found_so_far := found_so_far || array(
            select s.question_id
            from handraise.search_entries as s
            where s.workspace = home and (edge is null or s.question_id < edge)
                and (walked_to is null or s.question_id >= walked_to) and s.words @@ find_words.query
            order by s.question_id desc
            limit find_words.wanted - cardinality(found_so_far)
        );
        edge := walked_to;
        exit when edge is null or cardinality(found_so_far) >= find_words.wanted
            or 10 * cardinality(found_so_far) < find_words.wanted;
    end loop;
    return query select unnest(found_so_far);
    if cardinality(found_so_far) < find_words.wanted and edge is not null then
        -- These end with the function.
        perform set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'on', true);
        return query
        select s.question_id
        from handraise.search_entries as s
        where s.workspace = home and s.question_id < edge and s.words @@ find_words.query
        order by s.question_id desc
        limit find_words.wanted - cardinality(found_so_far);
    end if;
end
$$;

-- The workspaces with events after the one up to which they are in the index, walking from one to the next.
create function handraise.unindexed_workspaces(at_most integer) returns setof text
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspaces', true), '');
    walked text := '';
    behind boolean;
    found_so_far integer := 0;
begin
    loop
        select min(q.workspace) into walked from handraise.questions as q where q.workspace > walked;
        exit when walked is null or found_so_far >= at_most;
        perform handraise.set_workspace(walked);
        select coalesce((newest.transaction, newest.number) > (p.transaction, p.number), newest.number is not null)
        into behind
        from (select) as one
        left join lateral (
            select e.transaction, e.number
            from handraise.events as e
            where e.workspace = walked
            order by e.transaction desc, e.number desc
            limit 1
        ) as newest on true
        left join handraise.search_progress as p on p.workspace = walked;
        if behind and not exists (select from handraise.imports as i where i.workspace = walked) then
            found_so_far := found_so_far + 1;
            return next walked;
        end if;
    end loop;
    perform set_config('handraise.workspaces', home, true);
end
$$;

-- Put questions into the index, and note the event up to which that is done; false if somebody else has done it. Erasing
-- takes the same lock, so what it has erased is not put in again.
create function handraise.index_questions(
    workspace text, after_transaction xid8, after_number bigint, transaction xid8, number bigint, ids text[],
    words text[]
) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    last record;
begin
    perform pg_advisory_xact_lock(handraise.seal_lock(index_questions.workspace));
    perform handraise.set_workspace(index_questions.workspace);
    select p.transaction, p.number into last
    from handraise.search_progress as p
    where p.workspace = index_questions.workspace;
    if (last.transaction, last.number)
        is distinct from (index_questions.after_transaction, index_questions.after_number)
    then
        return false;
    end if;
    insert into handraise.search_entries as s (workspace, question_id, words)
    select index_questions.workspace, t.id, t.words::tsvector
    from unnest(index_questions.ids, index_questions.words) as t (id, words)
    where exists (
        select from handraise.questions as q where q.workspace = index_questions.workspace and q.id = t.id
    )
    on conflict (workspace, question_id) do update set words = excluded.words where s.words <> excluded.words;
    insert into handraise.search_progress as p (transaction, number, workspace)
    select index_questions.transaction, index_questions.number, index_questions.workspace
    where index_questions.number is not null
    on conflict (workspace) do update set transaction = excluded.transaction, number = excluded.number;
    return true;
end
$$;


-- == Removing and erasing ==
-- These work inside one workspace after the other, as the owner is bound by row-level security too.

-- Remove questions that were settled too long ago, by the rule of their workspace or else before `before` (null is for ever),
-- with their events and deliveries. Looks at the next `looked` events after a place, which are in the order of time, and
-- returns how many questions were removed, and the place to go on at: the next workspace if this one has nothing more to
-- remove, and no workspace at the end. What is held stays, what a valid grant or standing answer needs, and in a sealed
-- workspace what no seal covers yet. Never waits for the row of a question: what is locked stays for the next time.
create function handraise.remove_settled(
    now timestamptz, before timestamptz, looked integer,
    inout workspace text, inout transaction xid8, inout number bigint, out removed bigint
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    home text := coalesce(current_setting('handraise.workspaces', true), '');
    due record;
    old record;
    ids text[] := '{}';
    gone text[];
begin
    removed := 0;
    perform handraise.set_workspace(remove_settled.workspace);
    select case when r.workspace is null then remove_settled.before else remove_settled.now - r.keep end as before into due
    from (select) as one
    left join handraise.retention as r on r.workspace = remove_settled.workspace;
    for old in
        select e.transaction, e.number, e.at, e.question_id
        from handraise.events as e
        where e.workspace = remove_settled.workspace
            and (e.transaction, e.number) > (remove_settled.transaction, remove_settled.number)
        order by e.transaction, e.number
        limit remove_settled.looked
    loop
        exit when (old.at < due.before) is not true;
        ids := ids || old.question_id;
        remove_settled.transaction := old.transaction;
        remove_settled.number := old.number;
    end loop;
    if cardinality(ids) > 0 and pg_try_advisory_xact_lock(handraise.seal_lock(remove_settled.workspace)) then
        with over as materialized (
            select q.ctid as place, q.id
            from handraise.questions as q
            where q.workspace = remove_settled.workspace and q.id = any (ids) and q.settled_at < due.before
                and not exists (
                    select from handraise.holds as h
                    where h.workspace = q.workspace and (h.question_id is null or h.question_id = q.id)
                )
                and not exists (
                    select from handraise.grants as g
                    where g.workspace = q.workspace and g.question_id = q.id and g.revoked_at is null
                        and g.expires_at > remove_settled.now
                )
                and not exists (
                    select from handraise.standing_answers as a
                    where a.workspace = q.workspace and a.question_id = q.id and a.revoked_at is null
                        and a.expires_at > remove_settled.now
                )
                and not exists (
                    select
                    from handraise.events as e
                    where e.workspace = q.workspace and e.question_id = q.id
                        and (e.transaction, e.number) > (
                            select s.last_transaction, s.last_number
                            from handraise.seals as s
                            where s.workspace = remove_settled.workspace
                            order by s.number desc
                            limit 1
                        )
                )
            for update of q skip locked
        ),
        removing as (
            delete from handraise.questions as q where q.ctid = any (array(select over.place from over))
        )
        select array(select over.id from over) into gone;
        removed := cardinality(gone);
        perform handraise.note_removals(remove_settled.workspace, gone, 'removed', null, remove_settled.now);
        delete from handraise.events as e where e.workspace = remove_settled.workspace and e.question_id = any (gone);
        delete from handraise.deliveries as d where d.workspace = remove_settled.workspace and d.question_id = any (gone);
        perform handraise.remove_references(remove_settled.workspace, gone, remove_settled.now);
        delete from handraise.salts as s where s.workspace = remove_settled.workspace and s.question_id = any (gone);
        delete from handraise.search_entries as s
        where s.workspace = remove_settled.workspace and s.question_id = any (gone);
    end if;
    if cardinality(ids) < remove_settled.looked then
        remove_settled.transaction := '0';
        remove_settled.number := '-9223372036854775808';
        select least(
            (
                select r.workspace from handraise.retention as r
                where r.keep is not null and r.workspace > remove_settled.workspace
                order by r.workspace limit 1
            ),
            (
                select q.workspace from handraise.questions as q
                where remove_settled.before is not null and q.workspace > remove_settled.workspace
                order by q.workspace limit 1
            )
        )
        into remove_settled.workspace;
    end if;
    perform set_config('handraise.workspaces', home, true);
end
$$;

-- Erase questions, pending or not, with all that was kept of them, except those that are held; return which.
create function handraise.erase_questions(workspace text, ids text[], actor text, now timestamptz) returns text[]
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    wanted text[];
    gone text[];
    led record;
begin
    perform pg_advisory_xact_lock(handraise.seal_lock(erase_questions.workspace));
    perform handraise.set_workspace(erase_questions.workspace);
    select coalesce(array_agg(i.id), '{}') into wanted
    from unnest(erase_questions.ids) as i (id)
    where not exists (
        select from handraise.holds as h
        where h.workspace = erase_questions.workspace and (h.question_id is null or h.question_id = i.id)
    );
    -- First the question, so that nobody settles it any more.
    with erased as (
        delete from handraise.questions as q
        where q.workspace = erase_questions.workspace and q.id = any (wanted)
        returning q.id
    )
    select array(select erased.id from erased) into gone;
    perform handraise.note_removals(erase_questions.workspace, gone, 'erased', erase_questions.actor, erase_questions.now);
    for led in
        delete from handraise.inbox as i where i.workspace = erase_questions.workspace and i.question_id = any (gone)
        returning i.question_id, i.topic_key
    loop
        if led.topic_key is not null then
            perform handraise.open_next(
                erase_questions.workspace, led.question_id, led.topic_key, coalesce(erase_questions.now, pg_catalog.now())
            );
        end if;
    end loop;
    delete from handraise.events as e where e.workspace = erase_questions.workspace and e.question_id = any (gone);
    delete from handraise.deliveries as d
    where d.workspace = erase_questions.workspace and d.question_id = any (gone);
    delete from handraise.outbox as o where o.workspace = erase_questions.workspace and o.question_id = any (gone);
    perform handraise.remove_references(erase_questions.workspace, gone, erase_questions.now);
    delete from handraise.question_links as l
    where l.workspace = erase_questions.workspace and l.question_id = any (gone);
    delete from handraise.grants as g where g.workspace = erase_questions.workspace and g.question_id = any (gone);
    delete from handraise.standing_answers as a
    where a.workspace = erase_questions.workspace and a.question_id = any (gone);
    delete from handraise.salts as s where s.workspace = erase_questions.workspace and s.question_id = any (gone);
    delete from handraise.search_entries as s
    where s.workspace = erase_questions.workspace and s.question_id = any (gone);
    -- What was answered to requests is kept for a day, in case they are made again.
    delete from handraise.requests as r
    where r.workspace = erase_questions.workspace
        and (r.made = any (gone) or exists (select from unnest(gone) as g (id) where strpos(r.body, g.id) > 0));
    return gone;
end
$$;

-- The events of a workspace that a person did, or that concern them.
create function handraise.events_about(workspace text, person text) returns setof handraise.events
    language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select e.*
    from handraise.events as e
    where e.workspace = events_about.workspace and e.question_id = ''
        and (e.actor = events_about.person or e.data -> 'people' ? events_about.person);
end;

-- Erase what is kept of a person besides questions, and note that in `removals`. In what others have left, their name is
-- replaced.
create function handraise.erase_person(workspace text, person text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.set_workspace(erase_person.workspace);
    -- A seal is not made of what goes at the same time.
    perform pg_advisory_xact_lock(handraise.seal_lock(erase_person.workspace));
    insert into handraise.removals (at, workspace, question_id, what, actor, cursors)
    select
        now(), c.workspace, '', 'erased', null,
        string_agg(handraise.cursor_text(c.transaction, c.number), ',' order by c.transaction, c.number)
    from handraise.events_about(erase_person.workspace, erase_person.person) as c
    where exists (select from handraise.seals as s where s.workspace = erase_person.workspace)
    group by c.workspace;
    delete from handraise.events as e
    using handraise.events_about(erase_person.workspace, erase_person.person) as c
    where e.workspace = c.workspace and e.transaction = c.transaction and e.number = c.number;
    delete from handraise.people as p where p.workspace = erase_person.workspace and p.id = erase_person.person;
    delete from handraise.provisioned as p
    where p.workspace = erase_person.workspace and p.kind = 'User' and p.id = erase_person.person;
    update handraise.people as p set deputy = null
    where p.workspace = erase_person.workspace and p.deputy = erase_person.person;
    update handraise.people as p set email_by = 'erased'
    where p.workspace = erase_person.workspace and p.email_by = erase_person.person;
    delete from handraise.addresses as a
    where a.workspace = erase_person.workspace and a.recipient = erase_person.person;
    delete from handraise.deliveries as d
    where d.workspace = erase_person.workspace and d.recipient = erase_person.person and d.reason <> 'callback';
    delete from handraise.requests as r
    where r.workspace = erase_person.workspace and starts_with(r.actor, 'person:' || erase_person.person || ' since ');
    update handraise.files as f
    set owner = 'erased:' || f.key, used_at = case when f.referred then f.used_at else '-infinity' end
    where f.workspace = erase_person.workspace and f.owner = 'person:' || erase_person.person;
    update handraise.agent_keys as k
    set created_by = case k.created_by when erase_person.person then 'erased' else k.created_by end,
        revoked_by = case k.revoked_by when erase_person.person then 'erased' else k.revoked_by end
    where k.workspace = erase_person.workspace and erase_person.person in (k.created_by, k.revoked_by);
    update handraise.stops as s set actor = 'erased', why = 'erased'
    where s.workspace = erase_person.workspace and s.actor = erase_person.person;
    update handraise.holds as h set actor = 'erased', reason = 'erased'
    where h.workspace = erase_person.workspace and h.actor = erase_person.person;
    update handraise.policies as p set actor = 'erased'
    where p.workspace = erase_person.workspace and p.actor = erase_person.person;
    update handraise.rule_suspensions as s set actor = 'erased'
    where s.workspace = erase_person.workspace and s.actor = erase_person.person;
    update handraise.grants as g set revoked_by = 'erased'
    where g.workspace = erase_person.workspace and g.revoked_by = erase_person.person;
    update handraise.standing_answers as a set revoked_by = 'erased'
    where a.workspace = erase_person.workspace and a.revoked_by = erase_person.person;
    update handraise.question_links as l set created_by = 'erased'
    where l.workspace = erase_person.workspace and l.created_by = erase_person.person;
    update handraise.links as l set vouched_by = 'erased'
    where l.workspace = erase_person.workspace
        and l.vouched_by in (erase_person.person, 'address:' || erase_person.person);
    update handraise.sessions as s set vouched_by = 'erased'
    where s.workspace = erase_person.workspace
        and s.vouched_by in (erase_person.person, 'address:' || erase_person.person);
    update handraise.passkeys as k set vouched_by = 'erased'
    where k.workspace = erase_person.workspace
        and k.vouched_by in (erase_person.person, 'address:' || erase_person.person);
end
$$;

-- Store an event of a workspace that is about no question: what a keeper does is in the audit trail.
create function handraise.note_change(at timestamptz, workspace text, kind text, actor text, data jsonb) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.set_workspace(note_change.workspace);
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    values (note_change.at, note_change.workspace, '', note_change.kind, note_change.actor, note_change.data);
end
$$;

-- The shortest time that any workspace keeps what is settled, by a rule of its own.
create function handraise.shortest_keep() returns interval
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select min(r.keep) from handraise.retention as r;
end;


-- == Row-level security ==

-- Every table with a workspace, for everybody, also for the owner.
do $$
declare
    walled regclass;
begin
    for walled in
        select c.oid
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid
        where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and a.attname = 'workspace'
        order by c.relname
    loop
        execute format('alter table %s enable row level security, force row level security', walled);
        execute format(
            'create policy workspace on %s
            using (handraise.is_visible(workspace)) with check (handraise.is_visible(workspace))',
            walled
        );
    end loop;
end
$$;


-- == Rights ==

-- Servers are `handraise_app`. Erasing and removing are the rights of `handraise_keeper`, so that nobody can delete history
-- with the password of a server. Roles belong to the whole cluster: another database may have made them, or be making them
-- now. An owner who may not create roles goes on without; opening a desk that must be confined then says what to do.
do $$
begin
    create role handraise_app nologin;
    grant handraise_app to current_user;
exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
end
$$;

do $$
begin
    create role handraise_keeper nologin;
    grant handraise_keeper to current_user;
exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
end
$$;

-- Grant the roles what the statements need. The owner can call it again if the roles were made later.
create function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    grant usage on schema handraise to handraise_app;
    -- Seals and removals are written by functions only. A rule that keeps nothing, or a hold that is lifted, would make
    -- others remove what a server may not.
    grant select
        on handraise.migrations, handraise.imports, handraise.numbering, handraise.seals, handraise.removals, handraise.retention, handraise.search_entries,
            handraise.search_progress
        to handraise_app;
    grant select, insert on handraise.events, handraise.salts, handraise.holds, handraise.policies to handraise_app;
    -- Only functions remove references, files and bytes.
    grant select, insert on handraise.files, handraise.file_references, handraise.blobs to handraise_app;
    grant update (used_at, stored, referred) on handraise.files to handraise_app;
    grant select, insert, update
        on handraise.questions, handraise.grants, handraise.standing_answers, handraise.agent_keys, handraise.routing, handraise.deliveries
        to handraise_app;
    grant select, insert, delete
        on handraise.members, handraise.sessions, handraise.links, handraise.question_links, handraise.outbox,
            handraise.rule_suspensions, handraise.stops, handraise.quotas, handraise.passkey_nonces,
            handraise.saved_views
        to handraise_app;
    grant select, insert, update, delete on handraise.provisioned to handraise_app;
    grant select, insert, update, delete
        on handraise.inbox, handraise.listeners, handraise.people, handraise.calendars, handraise.requests,
            handraise.addresses,
            handraise.passkeys
        to handraise_app;
    grant execute
        on function handraise.due_workspaces, handraise.queue_stats, handraise.forget, handraise.forget_question_links,
            handraise.workspaces_with_entries, handraise.workspaces_with_rotas, handraise.workspaces_with_due, handraise.unsealed_workspaces, handraise.append_seal, handraise.shortest_keep,
            handraise.take_unused_files, handraise.forget_file, handraise.drop_blob, handraise.find_words,
            handraise.unindexed_workspaces, handraise.index_questions
        to handraise_app;
    if to_regrole('handraise_keeper') is not null then
        grant usage on schema handraise to handraise_keeper;
        grant execute
            on function handraise.erase_questions, handraise.erase_person, handraise.remove_settled,
                handraise.note_change
            to handraise_keeper;
        grant select, insert, update, delete on handraise.retention to handraise_keeper;
        grant select, delete on handraise.holds to handraise_keeper;
    end if;
end
$$;

revoke execute
    on function handraise.due_workspaces, handraise.queue_stats, handraise.forget, handraise.forget_question_links,
        handraise.workspaces_with_entries, handraise.workspaces_with_rotas, handraise.workspaces_with_due, handraise.remove_settled,
        handraise.raise_epoch, handraise.move_in, handraise.unsealed_workspaces,
        handraise.append_seal, handraise.note_removals, handraise.erase_questions, handraise.events_about,
        handraise.erase_person, handraise.note_change, handraise.shortest_keep, handraise.allow_app,
        handraise.remove_references,
        handraise.take_unused_files, handraise.forget_file, handraise.drop_blob, handraise.find_words,
        handraise.unindexed_workspaces, handraise.index_questions
    from public;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;

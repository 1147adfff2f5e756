-- oldest release: 0.1.0
-- The whole schema: the same tables as in PostgreSQL, without an archive. Instants are whole microseconds
-- since 1970, JSON is text. Of a secret, only the digest is kept.
--
-- In this order: migrations; questions, their inbox, events and grants; full-text search; the directory of people and agents;
-- by what right somebody answers; deliveries; the audit trail.

-- What was applied to this file. `oldest_release` is the oldest one that works on the schema after it: that release may
-- open the file. `digest` is that of the migration: a build in which it differs does not open the file.
create table migrations (
    number          integer primary key,
    name            text    not null,
    oldest_release  text    not null,
    digest          text
) strict;

-- The workspaces that are being imported. `lines` of the file with this digest are stored. Until an import is complete, nothing
-- is sealed or indexed of its workspace.
create table imports (
    workspace       text    primary key,
    file            text    not null,
    lines           integer not null
) strict, without rowid;


-- == Questions ==

create table questions (
    workspace     text    not null,
    id            text    not null,
    status        text    not null default 'pending'
        check (status in ('pending', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned')),
    asker         text    not null,
    key           text,
    -- A key is its asker's own, so that nobody can take another's. Askers that share one on purpose say so.
    shared        integer not null default 0,
    conversation  text,
    tool_call     text,
    -- The span in which the question was asked, as a W3C traceparent: the span of an answer links to it.
    trace         text,
    recipients    text    not null,
    -- Who is asked besides: deputies, and those whom somebody brought in. Null is nobody.
    added         text,
    -- Who does not want it in their inbox, and until when, in microseconds since 1970. Null is nobody.
    aside         text,
    -- Who is working on the answer, as far as they said, and until when.
    taken_by      text,
    taken_until   integer,
    -- The question of the same asker that this one replaces, and the one that replaced this one.
    replaces      text,
    replaced_by   text,
    -- What is asked, across askers; what equal questions of one topic have in common; and the one that this one follows.
    topic         text,
    topic_key     text,
    follows       text,
    quorum          integer not null,
    veto          integer not null,
    attempts      integer not null default 0,
    max_attempts  integer,
    -- For how many seconds a person may take an answer back before it is sent. Null is not at all.
    undo_for      real,
    -- After how many seconds without a sign of the asker nobody waits for the answer any more, and when that was last heard
    -- from. Null is not known.
    heartbeat     real,
    heard_at      integer,
    steps_taken   integer not null default 0,
    -- When the last step of the timeline was taken: a late step puts off the next one.
    stepped_at    integer,
    -- Who replies if a person asks back. How many messages the thread has, which of them waits for a reply (0 is none),
    -- and which was the last reply.
    replies       text,
    thread        integer not null default 0,
    asked_back    integer not null default 0,
    replied       integer not null default 0,
    asked_at      integer not null,
    expires_at    integer,
    settled_at    integer,
    consumed_at   integer,
    -- Since when an approval that nobody has consumed is taken back.
    taken_back_at integer,
    -- When the asker reported what came of the answer.
    reported_at   integer,
    unreached_at  integer,
    -- When the question was shown in a chat of its asker's, and until when a process has taken that on.
    sent_at       integer,
    sending_until integer,
    prompt        text    not null,
    form          text    not null,
    context       text,
    state         text,
    steps         text,
    votes         text,
    -- By what right each vote was given: `backed` is true if the directory gave it, false if only the calling program
    -- vouched for it, null if the directory did not know the person; `groups` are those that were vouched for; `seen`
    -- is how many messages of the thread it covers. Those whose votes were dropped are here too.
    voters        text,
    -- How many people each of the needs lacks. Null before the first vote.
    missing       text,
    -- What the policy of the workspace requires in addition: who must be among those who agree, and which evidence.
    needs         text,
    evidence      text,
    -- The version of the policy that applied, the rules that matched, and what the asker had asked for instead.
    ruling        text,
    outcome       text,
    report        text,
    -- The descriptions of its files. Null is none.
    attachments   text,
    primary key (workspace, id),
    check ((status = 'pending') = (settled_at is null) and (settled_at is null) = (outcome is null)),
    check ((reported_at is null) = (report is null))
) strict;

create unique index questions_by_owner_and_key
    on questions (workspace, (case when shared then '' else asker end), key) where key is not null;

-- A question is replaced once: of two that would replace it at the same time, one is not stored.
create unique index questions_by_replaced on questions (workspace, asker, replaces) where replaces is not null;

-- What was asked and how it ended never changes (P6), by whatever statement. What may change after the end is not among
-- these columns: `consumed_at` once, `taken_back_at` once and only until it is consumed, `reported_at` with `report` once,
-- `replaced_by` once, `unreached_at`.
create trigger asked_stays before update of
    id, asked_at, asker, key, conversation, tool_call, recipients, quorum, veto, max_attempts, prompt, form, context,
    state, steps, undo_for, heartbeat, replies, replaces, topic, needs, evidence, ruling, attachments
on questions
begin
    select raise(abort, 'what was asked does not change');
end;

create trigger settled_stays before update of status, settled_at, outcome, votes, missing, thread on questions
when old.status <> 'pending'
    and (new.status, new.settled_at, new.outcome, new.votes, new.missing, new.thread)
        is not (old.status, old.settled_at, old.outcome, old.votes, old.missing, old.thread)
begin
    select raise(abort, 'what was settled does not change');
end;

create trigger replaced_stays before update of replaced_by on questions
when old.replaced_by is not null and new.replaced_by is not old.replaced_by
begin
    select raise(abort, 'a question is replaced once');
end;

create trigger consumed_stays before update of consumed_at on questions
when old.consumed_at is not null and new.consumed_at is not old.consumed_at
begin
    select raise(abort, 'an approval is used up once');
end;

create trigger taken_back_stays before update of consumed_at, taken_back_at on questions
when old.taken_back_at is not null and new.taken_back_at is not old.taken_back_at
    or new.taken_back_at is not null and new.consumed_at is not null
begin
    select raise(abort, 'an approval is taken back once, and only until it is used');
end;

create trigger report_stays before update of reported_at, report on questions
when old.reported_at is not null
begin
    select raise(abort, 'a report is made once');
end;

-- Pending questions only: a row for each recipient ('*' if anyone may answer), deleted when the question settles. The
-- `main` row stands for the question itself and has its next due step.
create table inbox (
    workspace     text    not null,
    question_id   text    not null,
    recipient     text    not null,
    asker         text    not null,
    conversation  text,
    main          integer not null,
    open          integer not null,
    step          integer,
    due_at        integer,
    -- Of the main row: when the question is closed because nobody waits for it, or put off if its asker was heard from
    -- meanwhile. Null if the policy does not close it.
    unheard_at    integer,
    -- Escalated questions first, then those of high risk, then by expiry: see `handraise.model.urgency`. The default is for
    -- a question that is neither escalated nor an approval, and never expires.
    urgency       integer not null default 1693247906775043,
    -- The same for questions of one asker that are equal. Null is like no other.
    likeness      integer,
    -- As in `questions`.
    aside         text,
    -- Of the main row: the topic of a question that others can follow, or the question that this one follows.
    topic_key     text,
    follows       text,
    -- For views: when it was asked, of what kind it is, its tool, whether an answer is a vote, and who is working on it.
    asked_at      integer not null default 0,
    kind          text,
    tool          text,
    takes_votes   integer not null default 0,
    taken_by      text,
    taken_until   integer,
    primary key (workspace, question_id, recipient)
) strict, without rowid;

create unique index inbox_by_topic on inbox (workspace, topic_key) where topic_key is not null;
create index inbox_by_followed on inbox (workspace, follows, question_id) where follows is not null;

create index inbox_by_recipient on inbox (workspace, recipient, question_id) where open;
create index inbox_by_urgency on inbox (workspace, recipient, urgency, question_id) where open;
create index inbox_all_by_urgency on inbox (workspace, urgency, question_id) where main;
create index inbox_by_asker on inbox (workspace, asker, question_id) where main;
create index inbox_by_conversation on inbox (workspace, conversation, question_id)
    where main and conversation is not null;
create index inbox_by_due on inbox (due_at) where due_at is not null;
create index inbox_unheard on inbox (unheard_at) where unheard_at is not null;

-- One line of history for each transition; an event that is about no question has '' as its question's id. Its place in a
-- feed is `transaction` and `number`, as in PostgreSQL, so that a workspace that is imported has the same places. Of what is
-- written here, `transaction` is that of `numbering`.
create table events (
    number        integer primary key autoincrement,
    "transaction" integer not null default 0,
    -- The same as `number`: SQLite compares two columns at once along an index only if none of them is the row's own id.
    place         integer not null generated always as (number) virtual,
    workspace     text    not null,
    question_id   text    not null,
    kind          text    not null,
    at            integer not null,
    actor         text,
    channel       text,
    data          text
) strict;

create index events_by_workspace on events (workspace, "transaction", place);
create index events_by_question on events (workspace, question_id, "transaction", place);
-- Another key under which a question is found: that of a call that waits for the same answer.
create unique index events_by_key on events (workspace, actor, data ->> '$.key') where kind = 'joined';

-- What new events have as their `transaction`: more than any that was imported, 0 if none was or had one. So a feed goes on after
-- every cursor that the other store has given.
create table numbering (
    only_one      integer primary key default 1 check (only_one = 1),
    "transaction" integer not null default 0
) strict;

insert into numbering default values;

create trigger number_event after insert on events
when new."transaction" = 0 and (select n."transaction" from numbering as n) > 0
    and new.workspace not in (select workspace from imports)
begin
    update events set "transaction" = (select n."transaction" from numbering as n) where number = new.number;
end;

-- Processes that listen for wake-ups, the datagram port on this host where each hears them, and whether it is also told
-- of feeds, or only of settled questions.
create table listeners (
    process       text    primary key,
    port          integer not null,
    seen_at       integer not null,
    feeds         integer not null default 0
) strict;

-- Remembered approvals: for one conversation (session) or everywhere (always), always with an end.
create table grants (
    workspace     text    not null,
    id            text    not null,
    asker         text    not null,
    tool          text    not null,
    digest        text    not null,
    scope         text    not null check (scope in ('session', 'always')),
    conversation  text,
    granted_by    text    not null,
    -- By what right it was given, as in `voters`, with the groups that were vouched for.
    giver_backed  integer,
    giver_groups  text,
    revoked_by    text,
    question_id   text    not null,
    created_at    integer not null,
    expires_at    integer not null,
    revoked_at    integer,
    primary key (workspace, id)
) strict;

create index grants_by_action on grants (workspace, asker, tool, digest) where revoked_at is null;
create index grants_by_question on grants (workspace, question_id);

-- Answers that people keep for a topic, always with an end. `topic_key` is the same for questions that it answers.
create table standing_answers (
    workspace     text    not null,
    id            text    not null,
    topic         text    not null,
    topic_key     text    not null,
    given_by      text    not null,
    -- By what right it was given, as in `voters`, with the groups that were vouched for.
    giver_backed  integer,
    giver_groups  text,
    revoked_by    text,
    -- The spot check in which a person answered differently.
    contradicted_in text,
    question_id   text    not null,
    value         text    not null,
    spot_check    real    not null check (spot_check between 0 and 1),
    created_at    integer not null,
    expires_at    integer not null,
    revoked_at    integer,
    primary key (workspace, id)
) strict;

create index standing_answers_by_topic on standing_answers (workspace, topic_key) where revoked_at is null;
create index standing_answers_by_question on standing_answers (workspace, question_id);


-- == Full-text search ==

-- The words of each question, and tags that say where it belongs and who may ever see it. Python makes the words, so that all
-- engines find the same: the tokenizer only cuts at spaces. They are filled from the events, beside the statements that ask
-- and settle, and a search first brings its workspace up to date.
create table search_entries (
    number        integer primary key,
    workspace     text    not null,
    question_id   text    not null,
    unique (workspace, question_id)
) strict;

create virtual table search_words using fts5 (words, tags, tokenize = 'ascii', columnsize = 0);

create trigger remove_words after delete on search_entries
begin
    delete from search_words where rowid = old.number;
end;

-- Up to which event a workspace is in the index.
create table search_progress (
    workspace     text    primary key,
    "transaction" integer not null default 0,
    number        integer not null
) strict, without rowid;


-- == The directory: people, agents, sessions ==

-- `email` is as it was written; `email_folded` is what addresses are compared by. Python folds it: lower() knows only
-- ASCII here. `identity` is the account at an OIDC provider that the person first came with: a digest of its issuer and
-- subject. `email_by` chose the address by which that account was found, or will be. `admin_provided` says that they are an administrator because that provider says so. `language` and `time_zone` are
-- what they chose to read in. While they are away, `deputy` answers for them. Since `disabled_at`, they can do nothing here.
create table people (
    workspace     text    not null,
    id            text    not null,
    name          text    not null,
    email         text,
    email_folded  text,
    email_by      text,
    identity      text,
    role          text    not null check (role in ('member', 'admin')),
    created_at    integer not null,
    signed_in_at  integer,
    language      text,
    time_zone     text,
    away_from     integer,
    away_until    integer,
    deputy        text,
    disabled_at   integer,
    admin_provided integer not null default 0,
    primary key (workspace, id),
    unique (workspace, email_folded),
    check ((email is null) = (email_folded is null)),
    check ((away_from is null) = (away_until is null) and (deputy is null or away_until is not null))
) strict, without rowid;

create index people_away on people (workspace, away_until) where away_until is not null;
create index people_disabled on people (workspace, id) where disabled_at is not null;
create index people_by_identity on people (workspace, identity) where identity is not null;

-- The people who may do something.
create view enabled_people as
select * from people where disabled_at is null;

-- `provided` says that the membership comes from the OIDC provider, which can end it.
create table members (
    workspace     text    not null,
    group_name    text    not null,
    person        text    not null,
    provided      integer not null default 0,
    primary key (workspace, group_name, person)
) strict, without rowid;

create index members_by_person on members (workspace, person);

-- When a group works, and the calendar that says who of it is on duty; without a name, those of the workspace. `rota` is an
-- address or `file`, `ics` its text as it was last fetched, and `shifts` who is on duty when, around that time.
create table calendars (
    workspace     text    not null,
    group_name    text    not null,
    hours         text,
    rota          text,
    ics           text,
    shifts        text,
    fetched_at    integer,
    tried_at      integer,
    problem       text,
    primary key (workspace, group_name)
) strict, without rowid;

create view people_with_groups as
select
    p.*,
    (
        select json_group_array(m.group_name)
        from members as m
        where m.workspace = p.workspace and m.person = p.id
    ) as groups
from people as p;

create table agent_keys (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    agent         text    not null,
    created_at    integer not null,
    created_by    text    not null,
    last_used_at  integer,
    revoked_at    integer,
    revoked_by    text,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

-- `vouched_by` is who made the link that the session began with, if that was somebody else. `provider_session` is a digest of
-- the OIDC provider's issuer and of its own session, with which the provider can end this one.
create table sessions (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    person        text    not null,
    how           text    not null,
    vouched_by    text,
    provider_session text,
    created_at    integer not null,
    expires_at    integer not null,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

create index sessions_by_person on sessions (workspace, person);
create index sessions_by_provider on sessions (workspace, provider_session) where provider_session is not null;
create index sessions_by_end on sessions (expires_at);

-- The passkeys of people. `public_key` is a COSE key in base64url, `domain` is where it works, and `vouched_by` is that of the
-- session in which it was registered.
create table passkeys (
    workspace     text    not null,
    id            text    not null,
    person        text    not null,
    name          text    not null,
    domain        text    not null,
    public_key    text    not null,
    sign_count    integer not null,
    created_at    integer not null,
    last_used_at  integer,
    vouched_by    text,
    primary key (workspace, id)
) strict, without rowid;

create index passkeys_by_person on passkeys (workspace, person);

-- What makes each signature of a passkey work once: a nonce that was used is deleted.
create table passkey_nonces (
    workspace     text    not null,
    id            text    not null,
    person        text    not null,
    expires_at    integer not null,
    primary key (workspace, id)
) strict, without rowid;

create index passkey_nonces_by_person on passkey_nonces (workspace, person);

-- The views that people saved for their own lists. `query` is the query of the list's address.
create table saved_views (
    workspace     text    not null,
    person        text    not null,
    name          text    not null,
    query         text    not null,
    created_at    integer not null,
    primary key (workspace, person, name)
) strict, without rowid;

-- What a provider wrote over SCIM about a person or a group. `name_folded` is what their names there are compared by.
create table provisioned (
    workspace     text    not null,
    kind          text    not null check (kind in ('User', 'Group')),
    id            text    not null,
    name_folded   text    not null,
    document      text    not null,
    created_at    integer not null,
    changed_at    integer not null,
    primary key (workspace, kind, id),
    unique (workspace, kind, name_folded)
) strict, without rowid;

-- A link that was used is deleted.
create table links (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    person        text    not null,
    purpose       text    not null check (purpose in ('invitation', 'sign-in')),
    vouched_by    text,
    created_at    integer not null,
    expires_at    integer not null,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

create index links_by_person on links (workspace, person);
create index links_by_end on links (expires_at);

-- A link with which one person answers one question. It can be opened any number of times until it expires.
create table question_links (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    question_id   text    not null,
    person        text    not null,
    channel       text    not null,
    created_at    integer not null,
    created_by    text    not null,
    expires_at    integer not null,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

create index question_links_by_question on question_links (workspace, question_id);
create index question_links_by_person on question_links (workspace, person);
create index question_links_by_end on question_links (expires_at);

-- Requests by their idempotency keys. `turns` counts how often one was taken on; it is finished once it has a status.
create table requests (
    workspace     text    not null,
    actor         text    not null,
    key           text    not null,
    fingerprint   text    not null,
    made          text    not null,
    turns         integer not null default 1,
    released      integer not null default 0,
    began_at      integer not null,
    status        integer,
    body          text,
    primary key (workspace, actor, key),
    check ((status is null) = (body is null))
) strict;

create index requests_by_beginning on requests (began_at);


-- == By what right somebody answers ==
-- Votes and grants are checked again when they are used: what the directory gave, it can take away.

-- Who may answer each question, in any of its stages; '*' is anyone.
create view audiences as
select q.workspace, q.id, '*' as name from questions as q where q.recipients = '[]'
union all
select q.workspace, q.id, r.value from questions as q, json_each(q.recipients) as r
union all
select q.workspace, q.id, t.value
from questions as q, json_each(q.steps) as s, json_each(s.value, '$.to') as t
where q.recipients <> '[]' and s.key < q.steps_taken
union all
select q.workspace, q.id, a.value from questions as q, json_each(q.added) as a where q.recipients <> '[]';

-- When the next step of each question's timeline is due; null if none is left. After a late step, the next one waits at least
-- ten minutes, or as long as was planned between the two if that is less; but never beyond the end, which nothing puts off.
-- While it is the asker's turn, only the end is due.
create view next_steps as
select q.workspace, q.id, case
    when q.asked_back > 0 or q.follows is not null then q.expires_at
    when q.steps_taken = 0 then q.asked_at + cast(q.steps ->> '$[0].after' * 1000000 as integer)
    else min(
        max(
            q.asked_at + cast(q.steps ->> ('$[' || q.steps_taken || '].after') * 1000000 as integer),
            q.stepped_at + cast(min(
                q.steps ->> ('$[' || q.steps_taken || '].after') - q.steps ->> ('$[' || (q.steps_taken - 1) || '].after'),
                600
            ) * 1000000 as integer)
        ),
        coalesce(q.expires_at, 9223372036854775807)
    )
end as due_at
from questions as q;

-- The open stage of each question that has stages: the first in which somebody is missing. Null if nobody is.
create view stages as
select q.workspace, q.id, (
    select case when max(n.value ->> '$.stage') > 0 then min(case when coalesce(m.value, 1) > 0 then n.value ->> '$.stage' end) end
    from json_each(q.needs) as n
    left join json_each(q.missing) as m on m.key = n.key
) as stage
from questions as q
where q.needs is not null;

-- The names under which the directory lets each of its people answer.
create view directory_names as
select p.workspace, p.id as person, p.id as name from enabled_people as p
union all
select p.workspace, p.id, '*' from enabled_people as p
union all
select m.workspace, m.person, 'group:' || m.group_name
from members as m
join enabled_people as p on p.workspace = m.workspace and p.id = m.person;

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
        exists (select 1 from enabled_people as p where p.workspace = g.workspace and p.id = g.granted_by)
        or (
            g.giver_backed is null
            and not exists (select 1 from people as p where p.workspace = g.workspace and p.id = g.granted_by)
        )
    );

-- The same for the giver of each standing answer.
create view keepers as
select s.workspace, s.id as standing, d.name
from standing_answers as s
join directory_names as d on d.workspace = s.workspace and d.person = s.given_by
where s.giver_backed = 1
union all
select s.workspace, s.id, v.value
from standing_answers as s, json_each(json_insert(coalesce(s.giver_groups, '[]'), '$[#]', s.given_by, '$[#]', '*')) as v
where s.giver_backed is not 1
    and (
        exists (select 1 from enabled_people as p where p.workspace = s.workspace and p.id = s.given_by)
        or (
            s.giver_backed is null
            and not exists (select 1 from people as p where p.workspace = s.workspace and p.id = s.given_by)
        )
    );


-- == Deliveries: who has to be told ==

-- Where recipients can be reached: a person, a group ('group:ops') or anyone ('*').
create table addresses (
    workspace     text    not null,
    recipient     text    not null,
    channel       text    not null,
    id            text    not null,
    destination   text    not null,
    primary key (workspace, recipient, channel, id)
) strict, without rowid;

create index addresses_by_id on addresses (workspace, channel, id);

create table routing (
    workspace     text    primary key,
    policy        text    not null
) strict, without rowid;

-- Events that nobody has been told of yet.
create table outbox (
    number        integer primary key autoincrement,
    workspace     text    not null,
    question_id   text    not null,
    kind          text    not null,
    at            integer not null,
    data          text
) strict;

create index outbox_by_workspace on outbox (workspace, number);

-- Attempts to reach people, and callbacks to askers. A callback is stored with its question and is due at its end. A delivery that is being tried is due again when its lease ends; `due_at` is null if nothing is
-- left to do.
create table deliveries (
    workspace     text    not null,
    id            text    not null,
    question_id   text    not null,
    recipient     text    not null,
    channel       text    not null,
    asker         text    not null,
    reason        text    not null,
    rate_limit_key text   not null,
    bundle        text,
    destination   text    not null,
    receipt       text,
    problem       text,
    status        text    not null default 'queued'
        check (status in ('queued', 'sent', 'updated', 'unsent', 'failed', 'unknown', 'waiting')),
    tries         integer not null default 0,
    turn          integer not null default 0,
    stale         integer not null default 0,
    created_at    integer not null,
    sent_at       integer,
    due_at        integer,
    primary key (workspace, id)
) strict;

create index deliveries_by_due on deliveries (due_at) where due_at is not null;
create index deliveries_by_workspace_and_due on deliveries (workspace, due_at) where due_at is not null;
create index deliveries_by_question on deliveries (workspace, question_id);
create index deliveries_by_bundle on deliveries (workspace, bundle) where bundle is not null;
create index deliveries_by_creation on deliveries (workspace, created_at);
create index deliveries_failed on deliveries (workspace, created_at) where status = 'failed' and not stale;
create index deliveries_failed_by_channel on deliveries (workspace, channel, created_at)
    where status = 'failed' and not stale;
create index deliveries_retried on deliveries (workspace, created_at)
    where due_at is not null and problem is not null and not stale;
create index deliveries_retried_by_channel on deliveries (workspace, channel, created_at)
    where due_at is not null and problem is not null and not stale;

-- An event puts an entry into the outbox in its own transaction, if the workspace has any address at all, or if the event
-- ends a question that somebody was told of, or reports what came of it. A vote that opens another stage names who is
-- asked then; a note names its author, who is not told.
create trigger add_outbox_entry after insert on events
when (
        new.kind in (
            'asked', 'reminded', 'escalated', 'noted', 'replied', 'answered', 'declined', 'expired', 'withdrawn',
            'exhausted', 'returned', 'reported', 'brought_in', 'handed_over', 'opened'
        )
        or new.kind = 'voted' and new.data -> '$.to' is not null
    )
    and (
        exists (select 1 from addresses where workspace = new.workspace)
        or new.kind not in ('asked', 'reminded', 'escalated', 'noted', 'replied', 'voted', 'brought_in', 'handed_over', 'opened')
            and exists (select 1 from deliveries where workspace = new.workspace and question_id = new.question_id)
    )
    and new.workspace not in (select workspace from imports)
begin
    insert into outbox (workspace, question_id, kind, at, data)
    values (
        new.workspace, new.question_id, new.kind, new.at,
        case
            when new.kind in ('escalated', 'voted') then json_object('to', new.data -> '$.to')
            when new.kind in ('brought_in', 'handed_over') then json_object('to', new.data -> '$.to', 'by', new.actor)
            when new.kind = 'noted' then json_object('by', new.actor)
        end
    );
end;


-- == The audit trail ==

-- A batch of events and removals, chained to the one before. `leaves` are digests of 32 bytes, one after the other;
-- `cursors` are the places of the events, so that a leaf is known when its event is gone.
create table seals (
    workspace     text    not null,
    number        integer not null,
    oldest        integer not null,
    last_transaction integer not null default 0,
    last_number   integer not null,
    sealed_at     integer not null,
    previous      blob    not null,
    leaves        blob    not null,
    cursors       text    not null,
    signature     blob,
    key_id        text,
    primary key (workspace, number)
) strict;

-- What the digests of a question's events are salted with. It is deleted with the question.
create table salts (
    workspace     text    not null,
    question_id   text    not null,
    salt          blob    not null,
    primary key (workspace, question_id)
) strict, without rowid;

-- Questions that are gone, with the places of their events, and the seal that says so once there is one.
create table removals (
    number        integer primary key autoincrement,
    workspace     text    not null,
    question_id   text    not null,
    what          text    not null check (what in ('erased', 'removed')),
    at            integer not null,
    actor         text,
    cursors       text    not null,
    seal          integer
) strict;

create index removals_unsealed on removals (workspace, number) where seal is null;
create index removals_by_seal on removals (workspace, seal, number) where seal is not null;

-- How long a workspace keeps settled questions, if it has a rule of its own; null is for ever.
create table retention (
    workspace     text    primary key,
    keep          integer
) strict, without rowid;

-- The versions of a workspace's policy. The latest applies.
create table policies (
    workspace     text    not null,
    version       integer not null,
    at            integer not null,
    actor         text,
    document      text    not null,
    primary key (workspace, version)
) strict, without rowid;

-- Rules that do not allow anything any more, because a person denied a question that was a spot check. `rule` is the
-- digest of the rule: a rule that is written differently is another one.
create table rule_suspensions (
    workspace     text    not null,
    rule          text    not null,
    question_id   text    not null,
    at            integer not null,
    actor         text,
    primary key (workspace, rule)
) strict, without rowid;

-- What is stopped: an agent, a tool, a tool of an agent, or with neither the whole workspace.
create table stops (
    workspace     text    not null,
    id            text    not null,
    agent         text,
    tool          text,
    why           text    not null,
    at            integer not null,
    actor         text,
    primary key (workspace, id)
) strict, without rowid;

create unique index stops_by_scope on stops (workspace, coalesce(agent, ''), coalesce(tool, ''));

-- How many pending questions an agent may have, or with an empty name every agent without its own; 0 is any number.
create table quotas (
    workspace     text    not null,
    agent         text    not null,
    pending       integer not null,
    primary key (workspace, agent)
) strict, without rowid;

-- What is neither removed nor erased: a whole workspace, or one question of it.
create table holds (
    workspace     text    not null,
    name          text    not null,
    question_id   text,
    reason        text    not null,
    since         integer not null,
    actor         text    not null,
    primary key (workspace, name)
) strict, without rowid;


-- == Files ==

-- What was uploaded. `owner` is 'asker:' with the name of an asker, or 'person:' with the id of a person: only they can refer to
-- it. It can be used once its bytes are `stored`, and until it is `removed_at`; then its bytes are deleted. `referred` says that
-- a question may refer to it.
create table files (
    workspace     text    not null,
    key           text    not null,
    owner         text    not null,
    digest        text    not null,
    media_type    text    not null,
    size          integer not null,
    used_at       integer not null,
    stored        integer not null default 0,
    referred      integer not null default 0,
    removed_at    integer,
    primary key (workspace, key)
) strict, without rowid;

create index files_by_owner on files (workspace, owner, digest);
create index files_unused on files (used_at) where not referred;

-- Which question refers to which file. It is written before the question is: `checked` says that the question was found later.
create table file_references (
    workspace     text    not null,
    question_id   text    not null,
    key           text    not null,
    at            integer not null,
    checked       integer not null default 0,
    primary key (workspace, question_id, key)
) strict, without rowid;

create index file_references_by_key on file_references (workspace, key);
create index file_references_unchecked on file_references (at) where not checked;

-- The bytes of files, in parts, unless they are kept elsewhere.
create table blobs (
    workspace     text    not null,
    key           text    not null,
    place         integer not null,
    data          blob    not null,
    primary key (workspace, key, place)
) strict;

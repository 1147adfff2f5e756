-- oldest release: 0.1.0
-- The same tables as in PostgreSQL. Instants are whole microseconds since 1970, JSON is text.

create table questions (
    workspace     text    not null,
    id            text    not null,
    status        text    not null default 'pending'
        check (status in ('pending', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted')),
    asker         text    not null,
    key           text,
    conversation  text,
    tool_call     text,
    recipients    text    not null,
    need          integer not null,
    veto          integer not null,
    attempts      integer not null default 0,
    max_attempts  integer,
    steps_taken   integer not null default 0,
    asked_at      integer not null,
    expires_at    integer,
    settled_at    integer,
    consumed_at   integer,
    prompt        text    not null,
    form          text    not null,
    context       text,
    state         text,
    steps         text,
    votes         text,
    outcome       text,
    primary key (workspace, id),
    check ((status = 'pending') = (settled_at is null) and (settled_at is null) = (outcome is null))
) strict;

create unique index questions_by_key on questions (workspace, key) where key is not null;

-- Pending questions and nothing else: a row for each recipient ('*' where anyone may answer), gone when the
-- question settles. The `main` row stands for the question itself and carries its next due deed.
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
    primary key (workspace, question_id, recipient)
) strict, without rowid;

create index inbox_by_recipient on inbox (workspace, recipient, question_id) where open;
create index inbox_by_asker on inbox (workspace, asker, question_id) where main;
create index inbox_by_conversation on inbox (workspace, conversation, question_id)
    where main and conversation is not null;
create index inbox_by_due on inbox (due_at) where due_at is not null;

create table events (
    number        integer primary key autoincrement,
    workspace     text    not null,
    question_id   text    not null,
    kind          text    not null,
    at            integer not null,
    actor         text,
    channel       text,
    data          text
) strict;

create index events_by_workspace on events (workspace, number);
create index events_by_question on events (workspace, question_id, number);

-- Processes that listen for wake-ups, and the datagram port on this host where each hears them.
create table listeners (
    process       text    primary key,
    port          integer not null,
    seen_at       integer not null
) strict;

-- Room for what comes next.

create table deliveries (
    workspace     text    not null,
    id            text    not null,
    question_id   text    not null,
    recipient     text    not null,
    channel       text    not null,
    status        text    not null default 'queued',
    tries         integer not null default 0,
    created_at    integer not null,
    due_at        integer not null,
    leased_until  integer,
    data          text,
    primary key (workspace, id)
) strict;

create index deliveries_by_due on deliveries (due_at) where status = 'queued';
create index deliveries_by_question on deliveries (workspace, question_id);

create table grants (
    workspace     text    not null,
    id            text    not null,
    asker         text    not null,
    tool          text    not null,
    digest        text    not null,
    scope         text    not null check (scope in ('session', 'always')),
    conversation  text,
    granted_by    text    not null,
    revoked_by    text,
    question_id   text    not null,
    created_at    integer not null,
    expires_at    integer not null,
    revoked_at    integer,
    primary key (workspace, id)
) strict;

create index grants_by_action on grants (workspace, asker, tool, digest) where revoked_at is null;

create table seals (
    workspace     text    not null,
    number        integer not null,
    last_number   integer not null,
    sealed_at     integer not null,
    root          blob    not null,
    previous      blob    not null,
    signature     blob,
    key_id        text,
    primary key (workspace, number)
) strict;

-- oldest release: 0.1.0
-- Everything lives in one schema of its own; every row belongs to exactly one workspace.
-- Ids are texts compared by bytes, so that any id factory works and time-ordered ids sort by time.

-- The record. Nothing that changes is in an index, so that settling a question is a HOT update:
-- what finds pending questions is in `inbox`. Fixed-width columns first, so that no padding is stored.
create table handraise.questions (
    asked_at      timestamptz not null,
    expires_at    timestamptz,
    settled_at    timestamptz,
    consumed_at   timestamptz,
    attempts      integer     not null default 0,
    max_attempts  integer,
    need          smallint    not null,
    steps_taken   smallint    not null default 0,
    veto          boolean     not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    status        text        collate "C" not null default 'pending',
    asker         text        collate "C" not null,
    key           text        collate "C",
    conversation  text        collate "C",
    tool_call     text        collate "C",
    recipients    jsonb       not null,
    prompt        text        not null,
    form          json        not null,
    context       json,
    state         json,
    steps         jsonb,
    votes         jsonb,
    outcome       json,
    primary key (workspace, id),
    check (status in ('pending', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted')),
    check ((status = 'pending') = (settled_at is null) and (settled_at is null) = (outcome is null))
) with (fillfactor = 75);

create unique index questions_by_key on handraise.questions (workspace, key) where key is not null;

-- Pending questions and nothing else: a row for each recipient ('*' where anyone may answer), gone when the
-- question settles. The `main` row stands for the question itself and carries its next due deed.
-- Those a timeline escalates to are here from the start, not `open` until then: a row that came later could
-- be missed by a settlement that began before it.
create table handraise.inbox (
    due_at        timestamptz,
    step          smallint,
    main          boolean not null,
    open          boolean not null,
    workspace     text collate "C" not null,
    question_id   text collate "C" not null,
    recipient     text collate "C" not null,
    asker         text collate "C" not null,
    conversation  text collate "C",
    primary key (workspace, question_id, recipient)
) with (fillfactor = 90);

create index inbox_by_recipient on handraise.inbox (workspace, recipient, question_id) where open;
create index inbox_by_asker on handraise.inbox (workspace, asker, question_id) where main;
create index inbox_by_conversation on handraise.inbox (workspace, conversation, question_id)
    where main and conversation is not null;
create index inbox_by_due on handraise.inbox (due_at) where due_at is not null;

-- One line of history for each transition. `transaction` orders the feed: a reader only takes what is older
-- than every transaction still running, so that a late commit is never skipped.
create table handraise.events (
    transaction   xid8        not null default pg_current_xact_id(),
    number        bigint      generated always as identity,
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    kind          text        collate "C" not null,
    actor         text        collate "C",
    channel       text        collate "C",
    data          jsonb,
    primary key (workspace, transaction, number)
);

create index events_by_question on handraise.events (workspace, question_id, number);

-- Processes that listen for wake-ups; a writer that finds none fresh here sends no NOTIFY.
create unlogged table handraise.listeners (
    seen_at       timestamptz not null,
    process       text collate "C" primary key
);

-- Room for what comes next, so that the first release's data need not move: attempts to reach people, an outbox that any number of dispatchers claim with SKIP LOCKED and a lease.
create table handraise.deliveries (
    due_at        timestamptz not null,
    leased_until  timestamptz,
    created_at    timestamptz not null,
    tries         integer     not null default 0,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    question_id   text        collate "C" not null,
    recipient     text        collate "C" not null,
    channel       text        collate "C" not null,
    status        text        collate "C" not null default 'queued',
    data          jsonb,
    primary key (workspace, id)
) with (fillfactor = 75);

create index deliveries_by_due on handraise.deliveries (due_at) where status = 'queued';
create index deliveries_by_question on handraise.deliveries (workspace, question_id);

-- Remembered approvals: for one conversation (session) or everywhere (always), always with an end.
create table handraise.grants (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    revoked_at    timestamptz,
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
    primary key (workspace, id)
);

create index grants_by_action on handraise.grants (workspace, asker, tool, digest) where revoked_at is null;

-- Room for sealed batches of events, each chained to the one before.
create table handraise.seals (
    number           bigint      not null,
    last_transaction xid8        not null,
    last_number      bigint      not null,
    sealed_at        timestamptz not null,
    workspace        text        collate "C" not null,
    root             bytea       not null,
    previous         bytea       not null,
    signature        bytea,
    key_id           text,
    primary key (workspace, number)
);

-- oldest release: 0.1.0
-- What must be told to whom, kept with the questions until it is done.

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

create table policies (
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

-- Until now nothing wrote to this table. A delivery that is being tried is due again when its lease ends, so that
-- one instant says all; it is null where nothing is left to do.
drop table deliveries;

create table deliveries (
    workspace     text    not null,
    id            text    not null,
    question_id   text    not null,
    recipient     text    not null,
    channel       text    not null,
    asker         text    not null,
    reason        text    not null,
    lane          text    not null,
    bundle        text,
    destination   text    not null,
    receipt       text,
    problem       text,
    status        text    not null default 'queued'
        check (status in ('queued', 'sent', 'updated', 'unsent', 'failed', 'unknown')),
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

alter table questions add column unreached_at integer;

-- An event leaves its line in its own transaction, whoever writes it, where the workspace has any address at all; and
-- an ending where somebody was told of the question.
create trigger line_up after insert on events
when new.kind in ('asked', 'reminded', 'escalated', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted')
    and (
        exists (select 1 from addresses where workspace = new.workspace)
        or new.kind not in ('asked', 'reminded', 'escalated')
            and exists (select 1 from deliveries where workspace = new.workspace and question_id = new.question_id)
    )
begin
    insert into outbox (workspace, question_id, kind, at, data)
    values (new.workspace, new.question_id, new.kind, new.at, case when new.kind = 'escalated' then new.data end);
end;

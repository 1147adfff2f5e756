-- oldest release: 0.1.0
-- The audit trail: seals over events, what was removed, how long each workspace keeps what is settled, and what is held.

-- Until now nothing wrote to this table. `leaves` are digests of 32 bytes, one after the other; `cursors` has the places of
-- the events, so that a leaf is known when its event is gone.
drop table seals;

create table seals (
    workspace     text    not null,
    number        integer not null,
    oldest        integer not null,
    last_number   integer not null,
    sealed_at     integer not null,
    previous      blob    not null,
    leaves        blob    not null,
    cursors       text    not null,
    signature     blob,
    key_id        text,
    primary key (workspace, number)
) strict;

-- What the digests of a question's events are salted with. It goes with the question.
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

-- How long a workspace keeps settled questions, where it has a rule of its own; null is for ever.
create table retention (
    workspace     text    primary key,
    keep          integer
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

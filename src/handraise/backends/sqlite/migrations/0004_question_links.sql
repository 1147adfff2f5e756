-- oldest release: 0.1.0
-- Links with which one person answers one question, as often as they look at it, until they end. Of the secret only
-- the digest is kept.
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

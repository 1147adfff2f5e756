-- What is locked, read and saved to decide about questions. Nothing is decided here: see `handraise.model`.

-- name: ask_facts
-- What decides about new questions: what is stored already under their ids and keys, or replaces what they would replace, and
-- what holds in their workspaces.
select
    t.workspace, t.id, ${now} as now,
    (select q.id from handraise.questions as q where q.workspace = t.workspace and q.id = t.id) as by_id,
    (
        select q.id
        from handraise.questions as q
        where t.owner = '' and q.workspace = t.workspace and q.key = t.key and q.shared
    ) as by_shared_key,
    (
        select e.question_id
        from handraise.events as e
        where t.owner <> '' and e.workspace = t.workspace and e.actor = t.owner and e.key = t.key
    ) as by_key,
    (
        select q.id
        from handraise.questions as q
        where q.workspace = t.workspace and q.asker = t.asker and q.replaces = t.replaces
    ) as replaced_by,
    (select max(p.version) from handraise.policies as p where p.workspace = t.workspace) as policy_version,
    exists (
        select 1 from handraise.rule_suspensions as s where s.workspace = t.workspace and s.rule = t.rule
    ) as is_rule_suspended,
    exists (select 1 from handraise.stops as s where s.workspace = t.workspace) as has_stops,
    coalesce(
        (select q.pending from handraise.quotas as q where q.workspace = t.workspace and q.agent = t.asker),
        (select q.pending from handraise.quotas as q where q.workspace = t.workspace and q.agent = '')
    ) as quota
from ${rows(t, workspace text, id text, owner text, asker text, key text, rule text, replaces text)};

-- name: count_asked
-- How many questions an asker has pending, at most `:most`: no more rows are read, however many are pending.
select count(*) as pending
from (
    select 1
    from handraise.inbox as i
    where i.workspace = :workspace and i.asker = :asker and i.main
    limit :most
) as counted;

-- name: lock_topics (only PostgreSQL)
-- Lock topics: who asks for the same one waits.
select pg_advisory_xact_lock(hashtextextended(json_build_array(t.workspace, t.topic_key)::text, 1))
from ${rows(t, workspace text, topic_key text)};

-- name: topics_led
-- The questions that others of their topics follow, as far as is known.
select i.workspace, i.topic_key
from ${rows(t, workspace text, topic_key text)}
join handraise.inbox as i on i.workspace = t.workspace and i.topic_key = t.topic_key;

-- name: lock_leaders
-- Those of them that are pending, locked.
select i.workspace, i.topic_key, q.id
from ${rows(t, workspace text, topic_key text)}
join handraise.inbox as i on i.workspace = t.workspace and i.topic_key = t.topic_key
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where q.status = 'pending'
${lock(for share of q)};

-- name: insert_questions
-- Store new questions.
insert into handraise.questions (
    asked_at, expires_at, settled_at, heard_at, undo_for, heartbeat, max_attempts, quorum, veto, shared, workspace, id, status,
    replaces, topic, topic_key, follows, asker, key, conversation, tool_call, trace, replies, recipients, added, prompt, form,
    context, state, steps, needs, evidence, ruling, outcome, attachments
)
select
    t.asked_at, t.expires_at, t.settled_at, t.heard_at, t.undo_for, t.heartbeat, t.max_attempts, t.quorum, t.veto, t.shared,
    t.workspace, t.id, t.status, t.replaces, t.topic, t.topic_key, t.follows, t.asker, t.key, t.conversation, t.tool_call,
    t.trace, t.replies, t.recipients::jsonb, t.added::jsonb, t.prompt, t.form::json, t.context::json, t.state::json,
    t.steps::jsonb, t.needs::jsonb, t.evidence, t.ruling::json, t.outcome::json, t.attachments::json
from ${rows(
    t, asked_at timestamptz, expires_at timestamptz, settled_at timestamptz, heard_at timestamptz, undo_for float8,
    heartbeat float8, max_attempts int, quorum int, veto bool, shared bool, workspace text, id text, status text, replaces text,
    topic text, topic_key text, follows text, asker text, key text, conversation text, tool_call text, trace text,
    replies text, recipients text, added text, prompt text, form text, context text, state text, steps text, needs text,
    evidence text, ruling text, outcome text, attachments text
)};

-- name: open_inbox
-- Put new questions into the inbox.
insert into handraise.inbox (
    due_at, unheard_at, asked_at, urgency, likeness, step, main, open, takes_votes, workspace, question_id, recipient, asker,
    conversation, kind, tool, topic_key, follows
)
select
    t.due_at, t.unheard_at, t.asked_at, t.urgency, t.likeness, t.step, t.main, t.open, t.takes_votes, t.workspace, t.id,
    t.recipient, t.asker, t.conversation, t.kind, t.tool, t.topic_key, t.follows
from ${rows(
    t, due_at timestamptz, unheard_at timestamptz, asked_at timestamptz, urgency bigint, likeness bigint, step int, main bool,
    open bool, takes_votes bool, workspace text, id text, recipient text, asker text, conversation text, kind text, tool text,
    topic_key text, follows text
)};

-- name: add_callbacks
-- Store where the askers of new questions are called back. If one has ended already, that is due.
insert into handraise.deliveries (
    workspace, id, question_id, recipient, asker, channel, reason, status, rate_limit_key, destination, created_at, stale, due_at
)
select
    t.workspace, t.id, t.question_id, t.asker, t.asker, t.channel, 'callback', 'waiting', t.rate_limit_key,
    t.destination::json, t.created_at, t.due_at is not null, t.due_at
from ${rows(
    t, workspace text, id text, question_id text, asker text, channel text, rate_limit_key text, destination text,
    created_at timestamptz, due_at timestamptz
)};

-- name: join
-- Make a key stand for a pending question too, unless it stands for one already.
insert into handraise.events (at, workspace, question_id, kind, actor, data, key)
select ${now}, q.workspace, q.id, 'joined', t.actor, t.data::jsonb, t.key
from ${rows(t, workspace text, id text, actor text, key text, data text)}
${locked(q, questions, no key update)}
where q.asker = t.actor and q.status = 'pending'
on conflict (workspace, actor, key) where key is not null do nothing
returning question_id;

-- name: read
-- Questions by their places.
select q.*, ${now} as now
from ${rows(t, workspace text, id text)}
join handraise.questions as q on q.workspace = t.workspace and q.id = t.id;

-- name: read_by_key
-- Questions by their keys and whose those are, '' for shared ones: what was posted with a key, or joined with it. Their ids
-- are found first, because row-level security prevents an index search for a coalesce().
with found as materialized (
    select
        t.workspace, t.owner, t.key,
        coalesce(
            (
                select e.question_id
                from handraise.events as e
                where t.owner <> '' and e.workspace = t.workspace and e.actor = t.owner and e.key = t.key
            ),
            (
                select s.id
                from handraise.questions as s
                where t.owner = '' and s.workspace = t.workspace and s.key = t.key and s.shared
            )
        ) as id
    from ${rows(t, workspace text, owner text, key text)}
)
select q.*, ${now} as now, found.owner, found.key as name
from found
join handraise.questions as q on q.workspace = found.workspace and q.id = found.id;

-- name: lock
-- Lock pending questions in the order in which they are given, and return what can have changed since they were asked, whether
-- who moves is disabled, and whether anything is stopped in the workspace.
select
    q.workspace, q.id, q.steps_taken, q.stepped_at, q.heard_at, q.attempts, q.thread, q.asked_back, q.replied, q.follows,
    q.votes, q.voters, q.missing, q.added, q.aside, q.taken_by, q.taken_until, ${now} as now,
    -- Not exists(): PostgreSQL could then read everybody who is disabled.
    (
        select p.disabled_at is not null from handraise.people as p where p.workspace = q.workspace and p.id = t.actor
    ) as is_disabled,
    exists (select 1 from handraise.stops as s where s.workspace = q.workspace) as has_stops
from ${rows(t, workspace text, id text, actor text)}
${locked(q, questions, no key update)}
where q.status = 'pending';

-- name: stops_in
-- What is stopped in workspaces.
select s.workspace, s.id, s.agent, s.tool, s.why, s.at, s.actor
from ${rows(t, workspace text)}
join handraise.stops as s on s.workspace = t.workspace;

-- name: lock_people
-- Lock what the directory says about people: who changes it waits. It is read afterwards, in a new snapshot.
select p.id from ${rows(t, workspace text, id text)} ${locked(p, people, key share)};

-- name: share_groups (only PostgreSQL)
-- Lock who is in groups, together with others who only read it.
select pg_advisory_xact_lock_shared(handraise.group_lock(t.workspace, t.group_name))
from ${rows(t, workspace text, group_name text)};

-- name: rights
-- Of these people those whom the directory knows, with their groups.
select p.workspace, p.id, p.role, p.disabled_at is not null as is_disabled, ${groups_of(p)} as groups
from ${rows(t, workspace text, id text)}
join handraise.people as p on p.workspace = t.workspace and p.id = t.id;

-- name: grants_used
-- Grants that are used, locked: a revocation that was acknowledged is seen, and a later one waits.
select g.* from ${rows(t, workspace text, id text)} ${locked(g, grants, share)};

-- name: standing_checked
-- The standing answers of which questions are spot checks, locked.
select s.* from ${rows(t, workspace text, id text)} ${locked(s, standing_answers, no key update)};

-- name: lock_settled
-- Questions that may have ended, locked.
select q.*, ${now} as now from ${rows(t, workspace text, id text)} ${locked(q, questions, no key update)};

-- name: use_facts
-- What the use of an approval depends on, and the time: that at which its question is locked, not that at which the wait for
-- it began.
select
    ${clock} as now,
    (select max(p.version) from handraise.policies as p where p.workspace = t.workspace) as policy_version,
    exists (
        select 1 from handraise.rule_suspensions as s where s.workspace = t.workspace and s.rule = t.rule
    ) as is_rule_suspended,
    exists (
        select 1
        from handraise.events as e
        where e.workspace = t.workspace and e.question_id = t.id and e.kind = 'consumed' and e.actor = t.actor
            and e.data ->> 'digest' = t.digest and e.data ->> 'request' = t.request
    ) as is_repeated
from ${rows(t, workspace text, id text, rule text, actor text, digest text, request text)};

-- name: endings_of
-- The events that ended questions.
select e.kind, e.data
from ${rows(t, workspace text, id text)}
join handraise.events as e on e.workspace = t.workspace and e.question_id = t.id
where e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned');

-- name: lock_due
-- Pending questions of a workspace with a due step, locked, except those that another transaction has locked.
select q.*, ${now} as now
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
-- A sub-select, because row-level security prevents an index search for a coalesce().
where i.workspace = :workspace and i.due_at <= (select ${now}) and q.status = 'pending'
order by i.due_at
limit :limit
${lock(for no key update of q skip locked)};

-- name: lock_unheard
-- The same for questions that may have to be closed because nobody waits for them.
select q.*, ${now} as now
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.unheard_at <= (select ${now}) and q.status = 'pending'
order by i.unheard_at
limit :limit
${lock(for no key update of q skip locked)};

-- name: lock_old
-- An asker's pending questions that were asked longer than `:max_age` ago, locked.
select q.*, ${now} as now
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.asker = :asker and q.status = 'pending'
    and q.asked_at < ${now} - :max_age::interval
order by i.question_id
limit :limit
${lock(for no key update of q skip locked)};

-- name: lock_replaced
-- Questions that others of their askers replace, locked.
select q.*, ${now} as now
from ${rows(t, workspace text, id text, asker text)}
${locked(q, questions, no key update)}
where q.asker = t.asker and q.replaced_by is null;

-- name: lock_followers
-- The pending questions that follow one, locked, the oldest first.
select q.*, ${now} as now
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.follows = :id and q.status = 'pending'
order by i.question_id
${lock(for no key update of q)};

-- name: save_questions
-- Store what has changed in questions. The voters stay if there are none.
update handraise.questions as q
set
    status = t.status, settled_at = case when t.status <> 'pending' then ${now} end, outcome = t.outcome::json,
    attempts = t.attempts, thread = t.thread, asked_back = t.asked_back, replied = t.replied, votes = t.votes::jsonb,
    voters = coalesce(t.voters::jsonb, q.voters), missing = t.missing::jsonb, added = t.added::jsonb,
    aside = t.aside::jsonb, taken_by = t.taken_by, taken_until = t.taken_until, steps_taken = t.steps_taken,
    stepped_at = t.stepped_at, follows = t.follows
from ${rows(
    t, workspace text, id text, status text, outcome text, attempts int, thread int, asked_back int, replied int, votes text,
    voters text, missing text, added text, aside text, taken_by text, taken_until timestamptz, steps_taken int,
    stepped_at timestamptz, follows text
)}
where q.workspace = t.workspace and q.id = t.id;

-- name: save_replacements
-- Store which questions have replaced others.
update handraise.questions as q
set replaced_by = t.replaced_by
from ${rows(t, workspace text, id text, replaced_by text)}
where q.workspace = t.workspace and q.id = t.id;

-- name: save_uses
-- Store that approvals are used up.
update handraise.questions as q
set consumed_at = ${now}
from ${rows(t, workspace text, id text)}
where q.workspace = t.workspace and q.id = t.id;

-- name: save_taken_back
-- Store that approvals are taken back.
update handraise.questions as q
set taken_back_at = ${now}
from ${rows(t, workspace text, id text)}
where q.workspace = t.workspace and q.id = t.id;

-- name: save_reports
-- Store what came of answers.
update handraise.questions as q
set reported_at = ${now}, report = t.data::json
from ${rows(t, workspace text, id text, data text)}
where q.workspace = t.workspace and q.id = t.id;

-- name: leave_inbox
-- Take questions that have ended out of the inbox.
delete from handraise.inbox
where (workspace, question_id) in (select t.workspace, t.id from ${rows(t, workspace text, id text)});

-- name: save_inbox
-- Store entries of the inbox. A new one has what never changes from the main entry of its question.
insert into handraise.inbox as i (
    due_at, asked_at, taken_until, urgency, likeness, step, main, open, takes_votes, workspace, question_id, recipient, asker,
    conversation, kind, tool, taken_by, aside, topic_key, follows
)
select
    t.due_at, f.asked_at, t.taken_until, t.urgency, f.likeness, t.step, t.main, t.open, f.takes_votes, f.workspace,
    f.question_id, t.recipient, f.asker, f.conversation, f.kind, f.tool, t.taken_by, t.aside::jsonb, t.topic_key, t.follows
from ${rows(
    t, workspace text, id text, recipient text, main bool, open bool, step int, urgency bigint, due_at timestamptz,
    taken_by text, taken_until timestamptz, aside text, topic_key text, follows text
)}
-- Not just f.main: PostgreSQL could then use an index of main entries, and read all of the workspace.
join handraise.inbox as f on f.workspace = t.workspace and f.question_id = t.id and coalesce(f.main, false)
where true
on conflict (workspace, question_id, recipient) do update
set
    open = excluded.open, step = excluded.step, urgency = excluded.urgency, due_at = excluded.due_at,
    aside = excluded.aside, taken_by = excluded.taken_by, taken_until = excluded.taken_until,
    topic_key = excluded.topic_key, follows = excluded.follows;

-- name: put_off_closing
-- Look again at questions when they are to be closed by what was heard of their askers last.
update handraise.inbox as i
set unheard_at = t.unheard_at
from ${rows(t, workspace text, id text, unheard_at timestamptz)}
where i.workspace = t.workspace and i.question_id = t.id and i.main;

-- name: add_events
-- Store events, in this order.
insert into handraise.events (at, workspace, question_id, kind, actor, channel, data, key)
select ${now}, t.workspace, t.id, t.kind, t.actor, t.channel, t.data::jsonb, t.key
from ${rows(t, workspace text, id text, kind text, actor text, channel text, data text, key text)};

-- name: add_grants
-- Remember approvals.
insert into handraise.grants (
    created_at, expires_at, giver_backed, workspace, id, asker, tool, digest, scope, conversation, granted_by, question_id,
    giver_groups
)
select
    t.created_at, t.expires_at, t.giver_backed, t.workspace, t.id, t.asker, t.tool, t.digest, t.scope, t.conversation,
    t.granted_by, t.question_id, t.giver_groups::jsonb
from ${rows(
    t, created_at timestamptz, expires_at timestamptz, giver_backed bool, workspace text, id text, asker text, tool text,
    digest text, scope text, conversation text, granted_by text, question_id text, giver_groups text
)};

-- name: suspend_rules
-- Suspend rules, because spot checks of them were denied.
insert into handraise.rule_suspensions (at, workspace, rule, question_id, actor)
select ${now}, t.workspace, t.rule, t.id, t.actor
from ${rows(t, workspace text, rule text, id text, actor text)}
where true
on conflict do nothing;

-- name: end_standing
-- End standing answers, also because people have answered spot checks of them differently.
update handraise.standing_answers as s
set revoked_at = ${now}, revoked_by = t.actor, contradicted_in = t.contradicted_in
from ${rows(t, workspace text, id text, actor text, contradicted_in text)}
where s.workspace = t.workspace and s.id = t.id;

-- name: standing_for
-- The standing answers to a topic that have not been revoked, the newest first.
select s.*, ${now} as now
from handraise.standing_answers as s
where s.workspace = :workspace and s.topic_key = :topic_key and s.revoked_at is null
order by s.created_at desc, s.id desc;

-- name: add_standing
-- Keep answers for their topics.
insert into handraise.standing_answers (
    created_at, expires_at, spot_check, giver_backed, workspace, id, topic, topic_key, given_by, question_id, value, giver_groups
)
select
    t.created_at, t.expires_at, t.spot_check, t.giver_backed, t.workspace, t.id, t.topic, t.topic_key, t.given_by,
    t.question_id, t.value::json, t.giver_groups::jsonb
from ${rows(
    t, created_at timestamptz, expires_at timestamptz, spot_check float8, giver_backed bool, workspace text, id text, topic text,
    topic_key text, given_by text, question_id text, value text, giver_groups text
)};

-- name: grants_for
-- The grants of an asker for an action that have not been revoked.
select g.*, ${now} as now
from handraise.grants as g
where g.workspace = :workspace and g.asker = :asker and g.tool = :tool and g.digest = :digest and g.revoked_at is null;

-- name: grants
-- A page of all grants of a workspace.
select * from handraise.grants where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke
-- End a grant, unless it has been revoked before.
update handraise.grants
set revoked_at = ${now}, revoked_by = :actor
where workspace = :workspace and id = :id and revoked_at is null
returning *;

-- name: read_grant
-- One grant.
select * from handraise.grants where workspace = :workspace and id = :id;

-- name: claim_sending
-- Claim the task of showing a question in a chat, until a lease ends: if several try at once, only one gets a row.
update handraise.questions
set sending_until = ${now} + :lease::interval
where workspace = :workspace and id = :id and asker = :actor and status = 'pending' and sent_at is null
    and (expires_at is null or expires_at > ${now}) and (sending_until is null or sending_until <= ${now})
returning id;

-- name: mark_sent
-- Store that a question was shown in a chat.
update handraise.questions
set sent_at = ${now}, sending_until = null
where workspace = :workspace and id = :id and asker = :actor and status = 'pending' and sent_at is null
    and (expires_at is null or expires_at > ${now})
returning id;

-- name: heartbeats
-- When something was heard last of the askers of those of these questions that are pending, are theirs, and have a heartbeat.
select q.workspace, q.id, q.heartbeat, q.heard_at, ${now} as now
from ${rows(t, workspace text, id text, actor text)}
join handraise.questions as q on q.workspace = t.workspace and q.id = t.id
where q.asker = t.actor and q.status = 'pending' and q.heartbeat is not null and q.heard_at is not null;

-- name: beat
-- Store that askers still wait. What another transaction has locked is left out: a sign of an asker never makes anybody wait.
update handraise.questions
set heard_at = ${now}
where (workspace, id) in (
    select q.workspace, q.id
    from ${rows(t, workspace text, id text, actor text)}
    join handraise.questions as q on q.workspace = t.workspace and q.id = t.id
    where q.asker = t.actor and q.status = 'pending' and q.heartbeat is not null
    ${lock(for no key update of q skip locked)}
)
returning workspace, id, heartbeat;

-- name: followers
-- Pending questions that follow one.
select q.*, ${now} as now
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.follows = :id
order by i.question_id
limit :limit;

-- name: outcomes
-- Which of these are no longer pending, or do not exist: the poll of all waits of a process at once.
select t.workspace, t.id, q.status, q.settled_at, q.outcome
from ${rows(t, workspace text, id text)}
left join handraise.questions as q on q.workspace = t.workspace and q.id = t.id
where coalesce(q.status, '') <> 'pending';

-- name: covering_stop
-- The oldest stop that covers a question.
select s.workspace, s.id, s.agent, s.tool, s.why, s.at, s.actor
from handraise.stops as s
where s.workspace = :workspace and (s.agent is null or s.agent = :asker) and (s.tool is null or s.tool = :tool)
order by s.at, s.id
limit 1;

-- name: count_pending
-- How many questions an asker has pending.
select count(*) as count from handraise.inbox where workspace = :workspace and asker = :asker and main;

-- name: history
-- The events of one question.
select e.*
from handraise.events as e
where e.workspace = :workspace and e.question_id = :question_id and e.question_id <> ''
order by e.number;

-- name: histories
-- The latest events of some kinds of several questions.
select e.*
from handraise.events as e
where e.workspace = :workspace and e.question_id ${in(:ids::text[])} and e.question_id <> ''
    and e.kind ${in(:kinds::text[])}
order by e.number desc
limit :limit;

-- name: feed
-- Events of a workspace's questions after a cursor.
select e.*
from handraise.events as e
where e.workspace = :workspace and e.question_id <> '' and ${next_events(e)}
limit :limit;

-- name: trail
-- All events of a workspace after a cursor.
select e.* from handraise.events as e where e.workspace = :workspace and ${next_events(e)} limit :limit;

-- name: workspace_events
-- The same of those that are not about a question.
select e.*
from handraise.events as e
where e.workspace = :workspace and e.question_id = '' and ${next_events(e)}
limit :limit;

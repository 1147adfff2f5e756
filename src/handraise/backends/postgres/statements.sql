-- The statements of the PostgreSQL store. `:now` is null in production: the clock of the database is used.

-- name: insert
-- Register questions. One whose key or id exists, or that would be the second to replace a question, is not returned. A question that would give its asker more pending questions than its quota allows is not registered, and
-- neither is one that was decided by another version of the policy, by a rule that is suspended or by a standing answer that
-- does not hold, or that a stop covers; it is returned with the reason as `refused`, and with the `stop`. `pending` is how
-- many its asker had before, up to the quota: that of the asker, else of the workspace, else `:quota`; null and 0 are any
-- number. `place` counts the questions of an asker; without it, nothing is counted and no quota holds.
with given as (
    select *
    from unnest(
        :id::text[], :workspace::text[], :asker::text[], :key::text[], :conversation::text[],
        :tool_call::text[], :trace::text[], :prompt::text[], :form::text[], :context::text[], :state::text[],
        :recipients::text[], :quorum::int[], :veto::bool[], :max_attempts::int[], :steps::text[],
        :expire_after::float8[], :undo_for::float8[], :heartbeat::float8[], :shared::bool[], :replies::text[], :replaces::text[],
        :topic::text[], :topic_key::text[], :added::text[], :needs::text[], :evidence::text[],
        :ruling::text[], :policy_version::int[], :rule::text[], :standing::text[], :ended_as::text[], :ended_with::text[],
        :attachments::text[], :place::int[]
    ) as t (
        id, workspace, asker, key, conversation, tool_call, trace, prompt, form, context, state,
        recipients, quorum, veto, max_attempts, steps, expire_after, undo_for, heartbeat, shared, replies, replaces, topic, topic_key, added, needs, evidence,
        ruling, policy_version, rule, standing, ended_as, ended_with, attachments, place
    )
),
policy as materialized (
    select
        g.workspace,
        coalesce((select max(p.version) from handraise.policies as p where p.workspace = g.workspace), 0) as version
    from (select distinct workspace from unnest(:workspace::text[]) as t (workspace)) as g
),
asker as materialized (
    select
        g.workspace, g.asker, nullif(g.quota, 0) as quota,
        -- Never reads more rows than the quota, however many are pending.
        case when g.quota > 0 then (
            select count(*)
            from (
                select
                from handraise.inbox as i
                where i.workspace = g.workspace and i.asker = g.asker and i.main
                limit g.quota
            ) as counted
        ) end as pending
    from (
        select
            d.workspace, d.asker,
            coalesce(
                (select q.pending from handraise.quotas as q where q.workspace = d.workspace and q.agent = d.asker),
                (select q.pending from handraise.quotas as q where q.workspace = d.workspace and q.agent = ''),
                :quota::bigint
            ) as quota
        from (
            select distinct workspace, asker from unnest(:workspace::text[], :asker::text[]) as t (workspace, asker)
        ) as d
        where :place::int[] is not null
    ) as g
),
draft as materialized (
    select
        given.*,
        stopped.stop, asker.quota,
        case
            when stopped.stop is not null then 'stop'
            when given.policy_version <> policy.version then 'policy'
            when given.rule is not null and exists (
                select from handraise.rule_suspensions as s
                where s.workspace = given.workspace and s.rule = given.rule
            ) then 'policy'
            when given.standing is not null and not exists (
                select from handraise.standing_answers as s
                where s.workspace = given.workspace and s.id = given.standing and s.topic_key = given.topic_key
                    and s.given_by <> given.asker and s.revoked_at is null and s.expires_at > coalesce(:now::timestamptz, now())
                    and handraise.is_still_backed(
                        s.workspace, s.given_by, s.giver_backed, coalesce(s.giver_groups, '[]'), given.recipients::jsonb
                    )
            ) then 'policy'
            when given.ended_as is null and asker.pending + given.place > asker.quota then 'quota'
        end as refused
    from given
    join policy on policy.workspace = given.workspace
    left join asker on asker.workspace = given.workspace and asker.asker = given.asker
    left join lateral (
        select to_json(s)::text as stop
        from handraise.stops_of(given.workspace, given.asker, given.form::json) as s
        order by s.at, s.id
        limit 1
    ) as stopped on true
),
posted as (
    insert into handraise.questions (
        asked_at, expires_at, max_attempts, quorum, veto, workspace, id, asker, key, conversation, tool_call,
        trace, recipients, prompt, form, context, state, steps, undo_for, shared, replies, replaces, topic, topic_key, added, needs,
        evidence, ruling, status, settled_at, outcome, follows, attachments, heartbeat, heard_at
    )
    select
        coalesce(:now::timestamptz, now()),
        coalesce(:now::timestamptz, now()) + expire_after * interval '1 second',
        max_attempts, coalesce(quorum, 1), coalesce(veto, false), workspace, id, asker, key, conversation, tool_call,
        trace, recipients::jsonb, prompt, form::json, context::json, state::json, steps::jsonb, undo_for, coalesce(shared, false),
        replies, replaces, topic, topic_key, added::jsonb, needs::jsonb, evidence, ruling::json, coalesce(ended_as, 'pending'),
        case when ended_as is not null then coalesce(:now::timestamptz, now()) end, ended_with::json,
        case when topic_key is not null and ended_as is null then handraise.followed_by(workspace, topic_key) end,
        attachments::json, heartbeat, case when heartbeat is not null then coalesce(:now::timestamptz, now()) end
    from draft
    where (draft.key is null or draft.shared or not exists (
            select from handraise.events as e
            where e.workspace = draft.workspace and e.actor = draft.asker and e.key = draft.key
        ))
        and refused is null
    on conflict do nothing
    returning workspace, id, asker, conversation, asked_at, expires_at, recipients, steps, status, outcome, needs, replaces, added, topic_key, follows,
        case when not shared then key end as key,
        handraise.closes_at(heard_at, heartbeat, ruling) as closes_at,
        handraise.urgency(expires_at, form, false) as urgency,
        hashtextextended(concat(asker, chr(10), prompt, chr(10), form), 0) as likeness,
        form ->> 'kind' as kind, form -> 'action' ->> 'tool' as tool, quorum > 1 or needs is not null as takes_votes
),
opened as (
    insert into handraise.inbox (
        due_at, unheard_at, step, urgency, likeness, main, open, workspace, question_id, recipient, asker, conversation,
        topic_key, follows, asked_at, takes_votes, kind, tool
    )
    select
        case
            when place = 1 and follows is not null then expires_at
            when place = 1 then asked_at + (steps -> 0 ->> 'after')::float8 * interval '1 second'
        end,
        case when place = 1 then closes_at end, null, urgency, likeness, place = 1,
        follows is null and (
            needs is null or handraise.asked_in(handraise.open_stage(needs, null), needs, recipients || '["*"]') ? recipient
        ),
        workspace, id, recipient, asker, conversation, case when place = 1 and follows is null then topic_key end,
        case when place = 1 then follows end, asked_at, takes_votes, kind, tool
    from posted,
        jsonb_array_elements_text(case recipients when '[]' then '["*"]' else recipients end)
            with ordinality as r (recipient, place)
    where status = 'pending'
    union all
    select
        null, null, min(place - 1)::smallint, urgency, likeness, false, false, workspace, id, recipient, asker,
        conversation, null, null, asked_at, takes_votes, kind, tool
    from posted,
        jsonb_array_elements(steps) with ordinality as s (step, place),
        jsonb_array_elements_text(step -> 'to') as recipient
    where status = 'pending' and recipients <> '[]' and not recipients ? recipient and not coalesce(added ? recipient, false)
    group by workspace, id, recipient, asker, conversation, urgency, likeness, asked_at, takes_votes, kind, tool
    union all
    select
        null, null, null, urgency, likeness, false, follows is null, workspace, id, recipient, asker, conversation, null, null,
        asked_at, takes_votes, kind, tool
    from posted, jsonb_array_elements_text(added) as recipient
    where status = 'pending' and not recipients ? recipient
),
-- What a new question replaces is withdrawn if it is open.
replaced as (
    update handraise.questions as q
    set (replaced_by, status, settled_at, outcome) = (
        select
            p.id,
            case when o.is_open then 'withdrawn' else q.status end,
            case when o.is_open then p.asked_at else q.settled_at end,
            case when o.is_open then json_build_object('by', q.asker, 'replaced_by', p.id) else q.outcome end
        from (select q.status = 'pending' and (q.expires_at is null or q.expires_at > p.asked_at)) as o (is_open)
    )
    from posted as p
    where p.replaces is not null and q.workspace = p.workspace and q.id = p.replaces and q.asker = p.asker
        and q.replaced_by is null
    returning q.workspace, q.id, q.asker, q.status, q.outcome, p.asked_at as at, p.id as replaced_by
),
closed as (
    delete from handraise.inbox as i
    using replaced
    where replaced.status <> 'pending' and i.workspace = replaced.workspace and i.question_id = replaced.id
),
-- A key is taken here, where `join` takes it too: of the two at once, the later one finds it taken, and is repeated. Always in the
-- order of the keys, so that two statements with the same ones do not wait for each other.
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data, key)
    select asked_at, workspace, id, kind, actor, data, key
    from (
        select
            1 as place, asked_at, workspace, id, 'asked' as kind, asker as actor,
            case when added is not null then jsonb_build_object('to', added) end as data, key
        from posted
        union all
        select 2, asked_at, workspace, id, status, outcome ->> 'by', outcome::jsonb, null from posted where status <> 'pending'
        union all
        select
            3, at, workspace, id,
            case when outcome ->> 'replaced_by' = replaced_by then 'withdrawn' else 'replaced' end,
            asker,
            case
                when outcome ->> 'replaced_by' = replaced_by then outcome::jsonb
                else jsonb_build_object('replaced_by', replaced_by)
            end,
            null
        from replaced
    ) as happened
    order by place, workspace, actor, key
)
select p.workspace, p.id, p.asked_at, p.follows, a.pending, a.quota, null as refused, null as stop
from posted as p
left join asker as a on a.workspace = p.workspace and a.asker = p.asker
union all
select d.workspace, d.id, null, null, null, d.quota, d.refused, d.stop from draft as d where d.refused is not null;

-- name: add_callbacks
-- Store where the askers of new questions are called back. If a policy has settled a question already, its callback is due.
insert into handraise.deliveries (
    workspace, id, question_id, recipient, asker, channel, reason, status, rate_limit_key, destination, created_at, stale,
    due_at
)
select
    q.workspace, c.id, q.id, q.asker, q.asker, c.channel, 'callback', 'waiting', c.rate_limit_key, c.destination::json,
    q.asked_at, q.status <> 'pending', q.settled_at
from json_to_recordset(:callbacks::text::json) as c (
    workspace text, id text, question_id text, asker text, channel text, rate_limit_key text, destination text
)
join handraise.questions as q on q.workspace = c.workspace and q.id = c.question_id and q.asker = c.asker
on conflict do nothing;

-- name: settle
-- Decide moves on pending questions, at most one for each question. A refused move is not returned. A grant is locked
-- before the question: a revocation that was acknowledged is seen, and a later one waits.
with move as materialized (
    select *
    from unnest(
        :workspace::text[], :id::text[], :kind::text[], :actor::text[], :principals::text[],
        :record::text[], :ballot::text[], :negative::bool[], :channel::text[], :granting::text[],
        :grant_id::text[], :seen::int[], :brought::text[], :until::bigint[], :lease::float8[]
    ) as t (
        workspace, id, kind, actor, principals, record, ballot, negative, channel, granting, grant_id, seen, brought, until,
        lease
    )
),
moved as (
    update handraise.questions as q
    set (
        status, settled_at, outcome, attempts, thread, asked_back, replied, votes, voters, missing, added, aside, taken_by,
        taken_until
    ) = (
        select
            decided.status,
            case when decided.status <> 'pending' then coalesce(:now::timestamptz, now()) end,
            case when decided.status <> 'pending' then m.record::json end,
            q.attempts + (m.kind = 'attempt')::int,
            q.thread + (m.kind in ('ask_back', 'note', 'reply'))::int,
            case
                when m.kind = 'ask_back' then q.thread + 1
                when m.kind = 'reply' and q.asked_back <= m.seen then 0
                else q.asked_back
            end,
            case when m.kind = 'reply' then q.thread + 1 else q.replied end,
            voted.votes,
            voted.voters,
            coalesce(tallied.tally -> 'missing', q.missing),
            case
                when m.brought is not null then (
                    select jsonb_agg(n.name order by n.place)
                    from (
                        select name, min(place) as place
                        from jsonb_array_elements(coalesce(q.added, '[]') || m.brought::jsonb)
                            with ordinality as b (name, place)
                        group by name
                    ) as n
                )
                else q.added
            end,
            case
                when m.kind = 'put_back' then nullif(q.aside - m.actor, '{}')
                when m.brought is not null or m.until is not null then nullif(
                    coalesce(q.aside - array(select jsonb_array_elements_text(m.brought::jsonb)), '{}')
                        || case when m.until is null then '{}' else jsonb_build_object(m.actor, m.until) end,
                    '{}'
                )
                else q.aside
            end,
            case
                when m.kind = 'take' then m.actor
                when m.kind in ('release', 'hand_over') and q.taken_by = m.actor then null
                else q.taken_by
            end,
            case
                when m.kind = 'take' then coalesce(:now::timestamptz, now()) + m.lease * interval '1 second'
                when m.kind in ('release', 'hand_over') and q.taken_by = m.actor then null
                else q.taken_until
            end
        from
            (
                select
                    case
                        when (q.quorum > 1 or q.needs is not null) and m.kind in ('answer', 'decline', 'send_back')
                            then coalesce(
                                (
                                    select jsonb_object_agg(v.key, v.value)
                                    from jsonb_each(q.votes) as v
                                    where handraise.is_still_backed(
                                        q.workspace, v.key, (q.voters -> v.key ->> 'backed')::boolean, null,
                                        handraise.audience(q.recipients, q.steps, q.steps_taken, q.added)
                                    ) and coalesce((q.voters -> v.key ->> 'seen')::int >= q.replied, true)
                                ),
                                '{}'
                            ) || jsonb_build_object(m.actor, m.ballot)
                        else q.votes
                    end,
                    case
                        when (q.quorum > 1 or q.needs is not null) and m.kind in ('answer', 'decline', 'send_back')
                            then coalesce(q.voters, '{}') || jsonb_build_object(
                                m.actor,
                                jsonb_build_object(
                                    'backed',
                                    handraise.is_backed(
                                        q.workspace, m.actor, handraise.audience(q.recipients, q.steps, q.steps_taken, q.added)
                                    ),
                                    'groups', m.principals::jsonb - m.actor,
                                    'stage', handraise.open_stage(q.needs, q.missing),
                                    'seen', m.seen
                                )
                            )
                        else q.voters
                    end
            ) as voted (votes, voters),
            lateral (
                select case
                    when q.needs is not null and m.kind in ('answer', 'decline', 'send_back')
                        then handraise.tally(q.workspace, q.needs, voted.votes, voted.voters, m.ballot)
                end
            ) as tallied (tally),
            lateral (
                select case
                    when m.kind in ('withdraw', 'withdraw_for') then 'withdrawn'
                    when m.kind = 'attempt' then
                        case when q.attempts + 1 >= q.max_attempts then 'exhausted' else 'pending' end
                    when m.kind in ('ask_back', 'note', 'reply') then 'pending'
                    when m.kind in ('take', 'release', 'bring_in', 'hand_over', 'set_aside', 'put_back') then 'pending'
                    when (q.quorum > 1 or q.needs is not null) and not (q.veto and m.negative)
                        and (
                            (select count(*) from jsonb_each_text(voted.votes) as v where v.value = m.ballot) < q.quorum
                            or not (tallied.tally ->> 'is_met')::boolean
                        )
                        then 'pending'
                    when m.kind = 'decline' then 'declined'
                    when m.kind = 'send_back' then 'returned'
                    else 'answered'
                end
            ) as decided (status)
    )
    from move as m
    where q.workspace = m.workspace
        and q.id = m.id
        and q.status = 'pending'
        and (q.expires_at is null or q.expires_at > coalesce(:now::timestamptz, now()))
        and (m.kind = 'reply' or m.seen is null or m.seen = q.thread)
        and (
            m.granting is null
            or coalesce((m.granting::jsonb ->> 'until')::timestamptz, 'infinity') > coalesce(:now::timestamptz, now())
        )
        and (
            m.negative
            or m.kind not in ('answer', 'grant')
            or not exists (select from handraise.stops_of(q.workspace, q.asker, q.form))
        )
        and case
            when m.kind = 'withdraw' then q.asker = m.actor
            when m.kind = 'withdraw_for' then true
            when m.kind = 'reply' then q.asker = m.actor and q.asked_back > 0
            when m.kind = 'ask_back' and q.replies is null then false
            when m.kind = 'grant' then q.asker = m.actor and q.quorum = 1 and q.needs is null and exists (
                select
                from handraise.grants as g
                where g.workspace = m.workspace and g.id = m.grant_id and g.asker = q.asker
                    and g.revoked_at is null and g.expires_at > coalesce(:now::timestamptz, now())
                    and (g.scope = 'always' or g.conversation = q.conversation)
                    and handraise.is_still_backed(
                        q.workspace, g.granted_by, g.giver_backed, coalesce(g.giver_groups, '[]'),
                        handraise.audience(q.recipients, q.steps, q.steps_taken, q.added)
                    )
                for share
            )
            when q.asker = m.actor then false
            when exists (
                select from handraise.people as p
                where p.workspace = m.workspace and p.id = m.actor and p.disabled_at is not null
            ) then false
            when m.kind = 'take' and q.taken_by <> m.actor and q.taken_until > coalesce(:now::timestamptz, now()) then false
            when m.kind = 'release' and not coalesce(
                q.taken_by = m.actor and q.taken_until > coalesce(:now::timestamptz, now()), false
            ) then false
            when m.kind = 'put_back' and not coalesce(q.aside ? m.actor, false) then false
            when q.needs is not null and handraise.open_stage(q.needs, q.missing) is not null
                and not handraise.asked_in(handraise.open_stage(q.needs, q.missing), q.needs, q.recipients)
                    ?| array(select jsonb_array_elements_text(m.principals::jsonb))
                then false
            when q.recipients = '[]' then true
            when q.recipients ?| array(select jsonb_array_elements_text(m.principals::jsonb)) then true
            when q.added ?| array(select jsonb_array_elements_text(m.principals::jsonb)) then true
            when q.steps_taken = 0 then false
            else exists (
                select
                from jsonb_array_elements(q.steps) with ordinality as s (step, place)
                where place <= q.steps_taken
                    and step -> 'to' ?| array(select jsonb_array_elements_text(m.principals::jsonb))
            )
        end
    returning q.workspace, q.id, q.status, q.settled_at, q.heard_at, q.attempts, q.thread, q.asked_back, q.replied, q.votes, q.voters,
        q.missing, q.steps_taken, q.stepped_at, q.recipients, q.needs, q.added, q.aside, q.taken_by, q.taken_until,
        q.follows, m.brought::jsonb as brought,
        case
            when m.kind in ('ask_back', 'reply')
                then handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
        end as due_at,
        case when q.needs is not null then handraise.open_stage(q.needs, q.missing) end as stage,
        case when q.needs is not null then (q.voters -> m.actor ->> 'stage')::integer end as stage_before,
        q.asker, q.conversation, m.kind, m.actor, m.channel, m.record, m.granting::jsonb as granting, m.negative,
        q.ruling ->> 'checked' as checked, q.ruling ->> 'standing' as standing,
        case when m.granting is not null then m.principals::jsonb - m.actor end as giver_groups,
        case
            when m.granting is not null
                then handraise.is_backed(
                    q.workspace, m.actor, handraise.audience(q.recipients, q.steps, q.steps_taken, q.added)
                )
        end as giver_backed
),
closed as (
    delete from handraise.inbox as i
    using moved
    where moved.status <> 'pending' and i.workspace = moved.workspace and i.question_id = moved.id
),
-- While it is the asker's turn, a question is last, and only its end is due.
turned as (
    update handraise.inbox as i
    set urgency = i.urgency % 2251799813685248 + case when moved.asked_back > 0 then 2251799813685248 else 0 end,
        due_at = case when i.main then moved.due_at end
    from moved
    where moved.kind in ('ask_back', 'reply') and i.workspace = moved.workspace and i.question_id = moved.id
),
-- A question is put into the inbox of those who are brought in, unless it follows another one.
brought as (
    insert into handraise.inbox as i (
        urgency, likeness, main, open, workspace, question_id, recipient, asker, conversation, aside, asked_at, takes_votes,
        kind, tool, taken_by, taken_until
    )
    select
        f.urgency, f.likeness, false, moved.follows is null, moved.workspace, moved.id, b.recipient, moved.asker,
        moved.conversation, moved.aside, f.asked_at, f.takes_votes, f.kind, f.tool, moved.taken_by, moved.taken_until
    from moved
    cross join jsonb_array_elements_text(moved.brought) as b (recipient)
    join handraise.inbox as f on f.workspace = moved.workspace and f.question_id = moved.id and f.main
    where moved.brought is not null
    on conflict (workspace, question_id, recipient) do update
    set open = excluded.open, step = null, aside = excluded.aside, taken_by = excluded.taken_by,
        taken_until = excluded.taken_until
),
put_aside as (
    update handraise.inbox as i
    set aside = moved.aside, taken_by = moved.taken_by, taken_until = moved.taken_until
    from moved
    where moved.kind in ('set_aside', 'put_back', 'bring_in', 'hand_over', 'take', 'release')
        and i.workspace = moved.workspace and i.question_id = moved.id
        and not coalesce(moved.brought ? i.recipient, false)
),
-- Who is asked from now on, because a vote has opened another stage.
restaged as materialized (
    select
        moved.workspace, moved.id,
        handraise.asked_in(moved.stage, moved.needs, moved.recipients) as asked,
        handraise.asked_in(moved.stage_before, moved.needs, moved.recipients) as asked_before
    from moved
    where moved.status = 'pending' and moved.kind in ('answer', 'decline', 'send_back')
        and moved.stage is distinct from moved.stage_before
),
asked as (
    update handraise.inbox as i
    set open = restaged.asked ? i.recipient
    from restaged
    where i.workspace = restaged.workspace and i.question_id = restaged.id and i.step is null
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, channel, data)
    select
        coalesce(settled_at, :now::timestamptz, now()), workspace, id,
        case
            when status <> 'pending' then status
            when kind = 'attempt' then 'attempted'
            when kind = 'ask_back' then 'asked_back'
            when kind = 'note' then 'noted'
            when kind = 'reply' then 'replied'
            when kind = 'take' then 'taken'
            when kind = 'release' then 'released'
            when kind = 'bring_in' then 'brought_in'
            when kind = 'hand_over' then 'handed_over'
            when kind = 'set_aside' then 'set_aside'
            when kind = 'put_back' then 'put_back'
            else 'voted'
        end,
        actor, channel,
        case
            when status <> 'pending' or kind not in ('answer', 'decline', 'send_back') then record::jsonb
            else case
                when voters - array(select jsonb_object_keys(votes)) <> '{}'
                    then record::jsonb || jsonb_build_object(
                        'uncounted',
                        array(select jsonb_object_keys(voters - array(select jsonb_object_keys(votes))) as name order by name)
                    )
                else record::jsonb
            end || coalesce(
                (
                    select jsonb_build_object('to', jsonb_agg(n.name order by n.name collate "C"))
                    from (
                        select jsonb_array_elements_text(r.asked) as name
                        from restaged as r
                        where r.workspace = moved.workspace and r.id = moved.id
                        except
                        select jsonb_array_elements_text(r.asked_before)
                        from restaged as r
                        where r.workspace = moved.workspace and r.id = moved.id
                    ) as n
                    having count(*) > 0
                ),
                '{}'
            )
        end
    from moved
),
granted as (
    insert into handraise.grants (
        created_at, expires_at, workspace, id, asker, tool, digest, scope, conversation, granted_by, question_id,
        giver_groups, giver_backed
    )
    select
        settled_at,
        least(
            (granting ->> 'until')::timestamptz,
            settled_at + (granting ->> 'lasts')::float8 * interval '1 second'
        ),
        workspace, granting ->> 'id', asker, granting ->> 'tool', granting ->> 'digest', granting ->> 'scope',
        conversation, actor, id, giver_groups, giver_backed
    from moved
    where status = 'answered' and granting is not null
),
suspended as (
    insert into handraise.rule_suspensions (at, workspace, rule, question_id, actor)
    select settled_at, workspace, checked, id, actor
    from moved
    where checked is not null and negative and status <> 'pending'
    on conflict do nothing
    returning at, workspace, rule, question_id, actor
),
-- A standing answer ends if a person answers a spot check of it differently.
contradicted as (
    update handraise.standing_answers as s
    set revoked_at = moved.settled_at, revoked_by = moved.actor, contradicted_in = moved.id
    from moved
    where moved.standing is not null and moved.kind in ('answer', 'decline', 'send_back') and moved.status <> 'pending'
        and s.workspace = moved.workspace and s.id = moved.standing and s.revoked_at is null
        and (moved.status <> 'answered' or moved.record::jsonb -> 'value' <> s.value::jsonb)
    returning s.revoked_at, s.workspace, s.question_id, s.id, s.revoked_by, s.contradicted_in
),
ended as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select
        revoked_at, workspace, question_id, 'revoked', revoked_by,
        jsonb_build_object('standing', id, 'question', contradicted_in)
    from contradicted
)
select
    workspace, id, status, settled_at, heard_at, attempts, thread, asked_back, replied, votes, missing, steps_taken,
    stepped_at, added,
    aside, taken_by, taken_until
from moved;

-- name: consume
-- Use up an approval: if several try at once, only one gets a row.
-- The time that counts is that at which the question is locked, not that at which the wait for it began.
with held as materialized (
    select q.id from handraise.questions as q where q.workspace = :workspace and q.id = :id for no key update
),
locked as materialized (
    select held.id, coalesce(:now::timestamptz, clock_timestamp()) as at from held
),
used as (
    update handraise.questions
    set consumed_at = coalesce(:now::timestamptz, now())
    from locked
    where workspace = :workspace and questions.id = :id and status = 'answered' and consumed_at is null
        and taken_back_at is null and asker = :actor
        and outcome -> 'value' ->> 'decision' = 'approve' and outcome -> 'value' ->> 'digest' = :digest
        -- The sealed history says so too.
        and (
            select bool_and(coalesce(
                e.kind = 'answered' and e.data -> 'value' ->> 'decision' = 'approve'
                and e.data -> 'value' ->> 'digest' = :digest,
                false
            ))
            from handraise.events as e
            where e.workspace = :workspace and e.question_id = :id
                and e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned')
        )
        and handraise.is_good(
            workspace, form, outcome, settled_at, handraise.audience(recipients, steps, steps_taken, added), locked.at
        )
        and (outcome ->> 'source' is distinct from 'policy' or handraise.is_policy(workspace, :policy_version, :rule))
        and not exists (select from handraise.stops_of(questions.workspace, questions.asker, questions.form))
    returning workspace, questions.id, consumed_at
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select
        consumed_at, workspace, id, 'consumed', :actor,
        jsonb_build_object('digest', :digest::text, 'request', :request::text)
    from used
)
select id from used;

-- name: consumed_by
-- A row if this same request used up the approval before, and is now repeated, and nothing stops it.
select e.number
from handraise.events as e
where e.workspace = :workspace and e.question_id = :id and e.kind = 'consumed' and e.actor = :actor
    and e.data ->> 'digest' = :digest and e.data ->> 'request' = :request
    and not exists (
        select
        from handraise.questions as q, handraise.stops_of(:workspace, :actor, q.form)
        where q.workspace = :workspace and q.id = :id
    );

-- name: find_usable
-- A row if `consume` would use up the approval now: what time it is, and when the approval ends by itself, if it does.
select
    coalesce(:now::timestamptz, now()) as now,
    least(q.settled_at + (q.form ->> 'valid_for')::float8 * interval '1 second', g.expires_at) as ends
from handraise.questions as q
left join handraise.grants as g
    on g.workspace = :workspace and g.id = q.outcome ->> 'grant' and q.outcome ->> 'source' = 'grant'
where q.workspace = :workspace and q.id = :id and q.status = 'answered' and q.asker = :actor and q.consumed_at is null and q.taken_back_at is null
    and q.outcome -> 'value' ->> 'decision' = 'approve' and q.outcome -> 'value' ->> 'digest' = :digest
    and (
        select bool_and(coalesce(
            e.kind = 'answered' and e.data -> 'value' ->> 'decision' = 'approve'
            and e.data -> 'value' ->> 'digest' = :digest,
            false
        ))
        from handraise.events as e
        where e.workspace = :workspace and e.question_id = :id
            and e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned')
    )
    and handraise.is_good(
        q.workspace, q.form, q.outcome, q.settled_at, handraise.audience(q.recipients, q.steps, q.steps_taken, q.added),
        coalesce(:now::timestamptz, now())
    )
    and (q.outcome ->> 'source' is distinct from 'policy' or handraise.is_policy(q.workspace, :policy_version, :rule))
    and not exists (select from handraise.stops_of(q.workspace, q.asker, q.form));

-- name: join
-- Make a key stand for a pending question too, unless it stands for one already.
with pending as (
    select q.workspace, q.id
    from handraise.questions as q
    where q.workspace = :workspace and q.id = :id and q.asker = :actor and q.status = 'pending'
    for no key update of q
)
insert into handraise.events (at, workspace, question_id, kind, actor, data, key)
select
    coalesce(:now::timestamptz, now()), workspace, id, 'joined', :actor, jsonb_build_object('key', :key::text), :key
from pending
on conflict (workspace, actor, key) where key is not null do nothing
returning question_id;

-- name: claim_sending
-- Claim the task of showing a question in a chat, until a lease ends: if several try at once, only one gets a row.
update handraise.questions
set sending_until = coalesce(:now::timestamptz, now()) + :lease::interval
where workspace = :workspace and id = :id and asker = :actor and status = 'pending' and sent_at is null
    and (expires_at is null or expires_at > coalesce(:now::timestamptz, now()))
    and (sending_until is null or sending_until <= coalesce(:now::timestamptz, now()))
returning id;

-- name: mark_sent
-- Record that a question was shown in a chat.
with sent as (
    update handraise.questions
    set sent_at = coalesce(:now::timestamptz, now()), sending_until = null
    where workspace = :workspace and id = :id and asker = :actor and status = 'pending' and sent_at is null
        and (expires_at is null or expires_at > coalesce(:now::timestamptz, now()))
    returning workspace, id, sent_at
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, channel)
    select sent_at, workspace, id, 'sent', :actor, :channel from sent
)
select id from sent;

-- name: take_back
-- Take back an approval that nobody has consumed, for one of those who gave it or an administrator.
with taken as (
    update handraise.questions
    set taken_back_at = coalesce(:now::timestamptz, now())
    where workspace = :workspace and id = :id and status = 'answered' and consumed_at is null
        and taken_back_at is null and outcome -> 'value' ->> 'decision' = 'approve'
        and (
            outcome ->> 'by' = :actor
            or votes ->> :actor = votes ->> (outcome ->> 'by')
            or exists (
                select from handraise.people as p
                where p.workspace = :workspace and p.id = :actor and p.role = 'admin' and p.disabled_at is null
            )
        )
    returning workspace, id, taken_back_at
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select taken_back_at, workspace, id, 'taken_back', :actor, :data::text::jsonb from taken
)
select id from taken;

-- name: report
-- Record what came of an answer, for its asker, once. An approval must have been used.
with reported as (
    update handraise.questions
    set reported_at = coalesce(:now::timestamptz, now()), report = :data::text::json
    where workspace = :workspace and id = :id and status = 'answered' and reported_at is null and asker = :actor
        and (form ->> 'kind' <> 'approval' or consumed_at is not null)
    returning workspace, id, reported_at
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select reported_at, workspace, id, 'reported', :actor, :data::text::jsonb from reported
)
select id from reported;

-- name: find_grant
-- The grant that is valid now for the action of a question; if there are several, the one that lasts longest.
select g.*
from handraise.grants as g
join handraise.questions as q on q.workspace = g.workspace and q.id = :id
where g.workspace = :workspace and g.asker = :asker and g.tool = :tool and g.digest = :digest
    and g.revoked_at is null and g.expires_at > coalesce(:now::timestamptz, now())
    and g.scope = any (:scopes::text[]) and (g.scope = 'always' or g.conversation = :conversation)
    and handraise.is_still_backed(
        q.workspace, g.granted_by, g.giver_backed, coalesce(g.giver_groups, '[]'),
        handraise.audience(q.recipients, q.steps, q.steps_taken, q.added)
    )
order by g.expires_at desc
limit 1;

-- name: grants
-- A page of all grants of a workspace.
select * from handraise.grants where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke
-- End a grant, unless it has been revoked before.
with ended as (
    update handraise.grants
    set revoked_at = coalesce(:now::timestamptz, now()), revoked_by = :actor
    where workspace = :workspace and id = :id and revoked_at is null
    returning *
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select revoked_at, workspace, question_id, 'revoked', :actor, jsonb_build_object('grant', id) from ended
)
select * from ended;

-- name: read_grant
-- One grant.
select * from handraise.grants where workspace = :workspace and id = :id;

-- name: due_workspaces
-- Some of the workspaces in which a step is due, or a question that nobody waits for.
select due_workspaces as workspace from handraise.due_workspaces(coalesce(:now::timestamptz, now()), :at_most);

-- name: sweep (may take long)
-- Do the next due step of up to `:limit` timelines of a workspace, skipping those that another sweep has locked. The
-- question's row is locked first, as everywhere, so that no two statements wait for each other. Also withdraw up to as many
-- questions that nobody waits for, if their policy closes them. A question whose asker was heard from is put off.
with due as materialized (
    select
        q.workspace, q.id, q.steps_taken, i.recipient,
        -- While the timeline is paused, and at its end, only the last step is taken.
        q.steps -> case
            when q.asked_back > 0 or q.follows is not null or q.expires_at <= coalesce(:now::timestamptz, now()) then -1
            else q.steps_taken
        end as step,
        -- A late step delays the next step, but never the end.
        handraise.due_at(q.asked_at, coalesce(:now::timestamptz, now()), q.steps, q.steps_taken + 1) as next_due_at
    from handraise.inbox as i
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    -- A sub-select, because row-level security prevents an index search for a coalesce().
    where i.workspace = :workspace and i.due_at <= (select coalesce(:now::timestamptz, now()))
        and q.status = 'pending'
        and handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
            <= coalesce(:now::timestamptz, now())
    order by i.due_at
    limit :limit
    for update of q skip locked
),
moved as (
    update handraise.questions as q
    set steps_taken = q.steps_taken + (step ->> 'do' not in ('expire', 'default'))::int,
        status = case step ->> 'do' when 'expire' then 'expired' when 'default' then 'answered' else q.status end,
        settled_at = case when step ->> 'do' in ('expire', 'default') then coalesce(:now::timestamptz, now()) end,
        outcome = case when step ->> 'do' in ('expire', 'default') then coalesce(step ->> 'record', '{}')::json end,
        stepped_at = case when step ->> 'do' in ('expire', 'default') then q.stepped_at
            else coalesce(:now::timestamptz, now()) end
    from due
    where q.workspace = due.workspace and q.id = due.id and q.status = 'pending'
        and q.steps_taken = due.steps_taken
    returning q.workspace, q.id, q.status, due.step, due.next_due_at, due.recipient, due.steps_taken
),
-- A row that changed before it was locked is read again, so a sign of the asker that was acknowledged counts.
unheard as materialized (
    select q.workspace, q.id, handraise.closes_at(q.heard_at, q.heartbeat, q.ruling) as closes_at
    from handraise.inbox as i
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.unheard_at <= (select coalesce(:now::timestamptz, now()))
        and q.status = 'pending' and (q.expires_at is null or q.expires_at > coalesce(:now::timestamptz, now()))
        and not exists (select from due where due.id = q.id)
    order by i.unheard_at
    limit :limit
    for update of q skip locked
),
orphaned as (
    update handraise.questions as q
    set status = 'withdrawn', settled_at = coalesce(:now::timestamptz, now()), outcome = :orphan_record::text::json
    from unheard as u
    where q.workspace = u.workspace and q.id = u.id and q.status = 'pending'
        and handraise.closes_at(q.heard_at, q.heartbeat, q.ruling) <= coalesce(:now::timestamptz, now())
    returning q.workspace, q.id, q.status
),
put_off as (
    update handraise.inbox as i
    set unheard_at = u.closes_at
    from unheard as u
    where i.workspace = u.workspace and i.question_id = u.id and i.main
        and u.closes_at > coalesce(:now::timestamptz, now())
),
closed as (
    delete from handraise.inbox as i
    using (
        select workspace, id from moved where status <> 'pending' union all select workspace, id from orphaned
    ) as ended
    where i.workspace = ended.workspace and i.question_id = ended.id
),
waiting as (
    update handraise.inbox as i
    set due_at = case when i.main then moved.next_due_at end,
        open = i.open or coalesce(i.step = moved.steps_taken, false),
        urgency = case
            when moved.step ->> 'do' = 'escalate' then i.urgency % 562949953421312 else i.urgency
        end
    from moved
    where moved.status = 'pending' and i.workspace = moved.workspace and i.question_id = moved.id
        and (i.main or moved.step ->> 'do' = 'escalate')
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind, actor, data)
    select
        coalesce(:now::timestamptz, now()), workspace, id,
        case step ->> 'do'
            when 'remind' then 'reminded' when 'escalate' then 'escalated'
            when 'expire' then 'expired' else 'answered'
        end,
        null,
        case step ->> 'do'
            when 'escalate' then jsonb_build_object('to', step -> 'to') when 'default' then (step ->> 'record')::jsonb
        end
    from moved
    union all
    select
        coalesce(:now::timestamptz, now()), workspace, id, status, :orphan_record::text::jsonb ->> 'by',
        :orphan_record::text::jsonb
    from orphaned
)
select workspace, id, status from moved
union all
select u.workspace, u.id, coalesce(o.status, 'pending')
from unheard as u
left join orphaned as o on o.workspace = u.workspace and o.id = u.id;

-- name: beat
-- Store that an asker still waits for the answers to these questions. One that another transaction has locked is left out:
-- a sign of the asker never makes anybody wait. What was heard from lately is not written again.
with late as materialized (
    select l.workspace, l.id
    from unnest(:workspaces::text[], :ids::text[]) as t (workspace, id)
    join handraise.questions as l on l.workspace = t.workspace and l.id = t.id
    where l.asker = :actor and l.status = 'pending' and l.heartbeat is not null
        and l.heard_at <= coalesce(:now::timestamptz, now()) - l.heartbeat * interval '0.1 seconds'
    for no key update of l skip locked
),
heard as (
    update handraise.questions as q
    set heard_at = coalesce(:now::timestamptz, now())
    from late
    where q.workspace = late.workspace and q.id = late.id
    returning q.workspace, q.id, q.heartbeat
)
select workspace, id, heartbeat from heard
union all
select q.workspace, q.id, q.heartbeat
from unnest(:workspaces::text[], :ids::text[]) as t (workspace, id)
join handraise.questions as q on q.workspace = t.workspace and q.id = t.id
where q.asker = :actor and q.status = 'pending' and q.heartbeat is not null
    and q.heard_at > coalesce(:now::timestamptz, now()) - q.heartbeat * interval '0.1 seconds';

-- name: expire_older (may take long)
-- Expire an asker's pending questions that are older than `:max_age` seconds.
with old as materialized (
    select q.workspace, q.id
    from handraise.inbox as i
    join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.main and i.asker = :asker and q.status = 'pending'
        and q.asked_at < coalesce(:now::timestamptz, now()) - :max_age::float8 * interval '1 second'
    order by i.question_id
    limit :limit
    for update of q skip locked
),
moved as (
    update handraise.questions as q
    set status = 'expired', settled_at = coalesce(:now::timestamptz, now()), outcome = '{}'
    from old
    where q.workspace = old.workspace and q.id = old.id and q.status = 'pending'
    returning q.workspace, q.id
),
closed as (
    delete from handraise.inbox as i
    using moved
    where i.workspace = moved.workspace and i.question_id = moved.id
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind)
    select coalesce(:now::timestamptz, now()), workspace, id, 'expired' from moved
)
select workspace, id from moved;

-- name: followers
-- Pending questions that follow one.
select q.*, handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
    <= coalesce(:now::timestamptz, now()) as overdue
from handraise.inbox as i
join handraise.questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.follows = :id
order by i.question_id
limit :limit;

-- name: read
-- Questions by their places.
select q.*, q.status = 'pending'
    and handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
        <= coalesce(:now::timestamptz, now()) as overdue
from unnest(:workspaces::text[], :ids::text[]) as t (workspace, id)
join handraise.questions as q on q.workspace = t.workspace and q.id = t.id;

-- name: read_by_key
-- Questions by their keys and whose those are, '' for shared ones: what was posted with a key, or joined with it.
select q.*, q.status = 'pending'
    and handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
        <= coalesce(:now::timestamptz, now()) as overdue,
    t.owner, t.key as name
from unnest(:workspaces::text[], :owners::text[], :keys::text[]) as t (workspace, owner, key)
cross join lateral (
    select e.question_id as id
    from handraise.events as e
    where t.owner <> '' and e.workspace = t.workspace and e.actor = t.owner and e.key = t.key
    union all
    select s.id
    from handraise.questions as s
    where t.owner = '' and s.workspace = t.workspace and s.key = t.key and s.shared
    limit 1
) as found
join handraise.questions as q on q.workspace = t.workspace and q.id = found.id;

-- name: writers
-- The transactions that write to questions now. A statement takes its lock before its snapshot of the database, so one
-- that is not among them will see what is committed by now.
select coalesce(array_agg(distinct l.virtualtransaction), '{}') as writers
from pg_locks as l
where l.locktype = 'relation' and l.relation = 'handraise.questions'::regclass
    and l.mode = 'RowExclusiveLock'
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.pid <> pg_backend_pid();

-- name: remove_settled (may take long, writes)
-- Remove what was settled longer ago than it is kept, by the rule of its workspace, else by this one; null is forever. This
-- looks at the next `:looked` events after a place, and returns the next place, without a workspace at the end.
select removed, workspace, transaction::text, number
from handraise.remove_settled(
    coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()) - :keep::interval, :looked, :workspace,
    :transaction::text::xid8, :number::bigint
);

-- name: outcomes
-- Which of these are no longer pending, or do not exist: the poll of all waits of a process at once.
select t.workspace, t.id, q.status, q.settled_at, q.outcome
from unnest(:workspaces::text[], :ids::text[]) as t (workspace, id)
left join lateral (
    select q.status, q.settled_at, q.outcome
    from handraise.questions as q
    where q.workspace = t.workspace and q.id = t.id
    limit 1
) as q on true
where q.status is distinct from 'pending';

-- name: pending_all
-- A page of everything pending in a workspace: the walk along the index first, then only its rows.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.question_id > :after
    order by i.question_id
    limit :limit
)
select q.*, handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
    <= coalesce(:now::timestamptz, now()) as overdue
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_asker
-- A page of what one asker has pending.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.asker = :asker and i.question_id > :after
    order by i.question_id
    limit :limit
)
select q.*, handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
    <= coalesce(:now::timestamptz, now()) as overdue
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_conversation
-- A page of what is pending in one conversation, also narrowed to an asker or to a person's own names.
with page as materialized (
    select i.workspace, i.question_id
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.conversation = :conversation and i.question_id > :after
        and (:asker::text is null or i.asker = :asker)
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.question_id
    limit :limit
)
select q.*, handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
    <= coalesce(:now::timestamptz, now()) as overdue
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: pending_by_recipient
-- A page of an inbox: one short walk along the index for each name the person answers to, then the first
-- of all. A question that reaches a person under several names is shown once.
with page as materialized (
    select distinct walk.question_id
    from unnest(:principals::text[]) as p (name),
        lateral (
            select i.question_id
            from handraise.inbox as i
            where i.workspace = :workspace and i.recipient = p.name and i.open and i.question_id > :after
                and i.asker <> :person
                and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside
                and (:asker::text is null or i.asker = :asker)
            order by i.question_id
            limit :limit
        ) as walk
    order by walk.question_id
    limit :limit
)
select q.*, handraise.next_due_at(q.asked_at, q.stepped_at, q.steps, q.steps_taken, q.asked_back, q.follows, q.expires_at)
    <= coalesce(:now::timestamptz, now()) as overdue
from page
cross join lateral (
    select s.* from handraise.questions as s where s.workspace = :workspace and s.id = page.question_id limit 1
) as q
order by page.question_id;

-- name: urgent_all
-- The next places of everything pending in a workspace, along the walks of `handraise.model.urgency`, each with its own
-- limit: they are merged afterwards.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: urgent_by_recipient
-- The same of an inbox: one short walk along the index for each name the person answers to, then the first of all.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select distinct walk.question_id as id, walk.urgency, walk.likeness, walk.asker, walk.conversation
    from unnest(:principals::text[]) as p (name),
        lateral (
            select i.question_id, i.urgency, i.likeness, i.asker, i.conversation
            from handraise.inbox as i
            where i.workspace = :workspace and i.recipient = p.name and i.open
                and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
                and i.asker <> :person
                and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside
            order by i.urgency, i.question_id
            limit :limit
        ) as walk
    order by walk.urgency, walk.question_id
    limit :limit
) as page;

-- name: urgent_by_asker
-- The same of one asker, also narrowed to a person's own names. All its pending questions are sorted.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.asker = :asker
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: urgent_by_conversation
-- The same of one conversation, also narrowed to an asker.
select page.*, coalesce(:now::timestamptz, now()) as now
from unnest(:ranks::bigint[], :afters::text[], :untils::bigint[]) as w (rank, after, until)
cross join lateral (
    select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation
    from handraise.inbox as i
    where i.workspace = :workspace and i.main and i.conversation = :conversation
        and (i.urgency, i.question_id) > (w.rank, w.after) and i.urgency < w.until
        and (:asker::text is null or i.asker = :asker)
        and (:person::text is null or i.asker <> :person
            and handraise.is_aside(i.aside, :person, coalesce(:now::timestamptz, now())) = :aside and exists (
            select
            from handraise.inbox as mine
            where mine.workspace = i.workspace and mine.question_id = i.question_id
                and mine.recipient = any (:principals::text[]) and mine.open
        ))
    order by i.urgency, i.question_id
    limit :limit
) as page;

-- name: settled
-- A page of what has ended, newest first: a walk back over up to `:looked` events, and from each that ended a question
-- to its row. If that does not fill the page, `edge` is the last event that was read, in a separate row if necessary.
with page as materialized (
    select e.transaction, e.number, q.*
    from (
        select w.transaction, w.number, w.question_id, w.kind, w.at
        from handraise.events as w
        where w.workspace = :workspace
            and (w.transaction, w.number) < (:transaction::text::xid8, :number::bigint)
        order by w.transaction desc, w.number desc
        limit :looked::bigint
    ) as e
    -- With a limit, so that each row is looked up separately: there is no gain in reading them all.
    cross join lateral (
        select s.*
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id
            and (:conversation::text is null or s.conversation = :conversation)
            and (:asker::text is null or s.asker = :asker)
            and (
                :decision::text is null
                or s.form ->> 'kind' = 'approval' and s.outcome -> 'value' ->> 'decision' = :decision
            )
            and (:settled_by::text is null or s.outcome ->> 'by' = :settled_by or s.votes ? :settled_by)
            and (
                :ways::text[] is null
                or case when s.status = 'answered' then coalesce(s.outcome ->> 'source', 'person') else s.status end = any (:ways)
            )
            and (
                :channel::text is null
                or coalesce(case when s.status in ('answered', 'declined', 'returned') then s.outcome ->> 'channel' end, '') = :channel
            )
            and (:tool::text is null or s.form ->> 'kind' = 'approval' and s.form -> 'action' ->> 'tool' = :tool)
            and (:risk::text is null or s.form ->> 'kind' = 'approval' and coalesce(s.form ->> 'risk', 'medium') = :risk)
            and (:group_name::text is null or s.recipients ? :group_name)
            and (:took_at_least::interval is null or s.settled_at >= s.asked_at + :took_at_least)
            and (:took_less::interval is null or s.settled_at < s.asked_at + :took_less)
            and (not :is_late::boolean or s.settled_at >= s.asked_at + make_interval(secs => (s.steps -> 0 ->> 'after')::float8))
            and (not :has_failed::boolean or s.form ->> 'kind' = 'approval' and s.report ->> 'ok' = 'false')
            and (
                :person::text is null
                or s.outcome ->> 'by' = :person
                or s.votes ? :person
                or s.asker <> :person and (
                    s.recipients = '[]'
                    or s.recipients ?| :principals::text[]
                    or s.added ?| :principals::text[]
                    or exists (
                        select
                        from jsonb_array_elements(s.steps) with ordinality as t (step, place)
                        where t.place <= s.steps_taken and t.step -> 'to' ?| :principals::text[]
                    )
                )
            )
        limit 1
    ) as q
    where e.kind = any (:kinds::text[])
        and (:since::timestamptz is null or e.at >= :since)
        and (:until::timestamptz is null or e.at < :until)
    order by e.transaction desc, e.number desc
    limit :limit::bigint
),
edge as (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) < (:transaction::text::xid8, :number::bigint)
        and (select count(*) from page) < :limit::bigint
    order by w.transaction desc, w.number desc
    offset :looked::bigint - 1
    limit 1
)
select
    page.*, false as overdue, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction desc, page.number desc;

-- name: settled_rows
-- What has ended among the next `:looked` events after a cursor, oldest first, in the columns of an export. `edge` is the
-- last event that was read, in a separate row if nothing has ended; it is null at the end.
with walked as materialized (
    select w.transaction, w.number, w.question_id, w.kind, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) > (:transaction::text::xid8, :number::bigint)
    order by w.transaction, w.number
    limit :looked::bigint
),
page as materialized (
    select
        e.transaction, e.number,
        q.id, q.asker, q.conversation, q.topic, q.tool_call, q.trace, q.prompt, q.form, q.recipients, q.status, q.outcome,
        q.votes, q.ruling, q.report, q.asked_at, q.settled_at, q.consumed_at, q.taken_back_at
    from walked as e
    -- With a limit, so that each row is looked up separately: there is no gain in reading them all.
    cross join lateral (
        select s.*
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id and s.settled_at is not null
        limit 1
    ) as q
    where e.kind = any (:kinds::text[])
        and (:since::timestamptz is null or e.at >= :since)
        and (:until::timestamptz is null or e.at < :until)
),
edge as (
    select e.transaction, e.number, e.at
    from walked as e
    order by e.transaction, e.number
    offset :looked::bigint - 1
    limit 1
)
select
    page.id, page.asker, page.conversation, page.topic, page.tool_call, page.trace, page.prompt, page.form, page.recipients,
    page.status, page.outcome, page.votes, page.ruling, page.report, page.asked_at, page.settled_at, page.consumed_at,
    page.taken_back_at, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction, page.number;

-- name: first_event_at
-- The first event of a workspace at or after an instant, if there is one. Events are in the order of their times, so
-- halving finds it: first its transaction, then its number in there. Each step reads one entry of the index.
with recursive by_transaction (low, high) as (
    select
        -1::bigint,
        (
            select w.transaction::text::bigint
            from handraise.events as w
            where w.workspace = :workspace
            order by w.transaction desc, w.number desc
            limit 1
        )
    union all
    select case when e.at >= :at::timestamptz then t.low else m.middle end, case when e.at >= :at::timestamptz then m.middle else t.high end
    from by_transaction as t
    -- Cast apart: with row-level security, an index is searched only for what needs no cast there.
    cross join lateral (
        select (t.low + t.high) / 2 as middle, ((t.low + t.high) / 2)::text::xid8 as transaction offset 0
    ) as m
    left join lateral (
        select w.at
        from handraise.events as w
        where w.workspace = :workspace and w.transaction <= m.transaction
        order by w.transaction desc, w.number desc
        limit 1
    ) as e on true
    where t.high - t.low > 1
),
transaction as materialized (
    select t.high::text::xid8 as id from by_transaction as t where t.high - t.low <= 1 limit 1
),
by_number (transaction, low, high) as (
    select t.id, 0::bigint, newest.number
    from transaction as t
    cross join lateral (
        select w.number
        from handraise.events as w
        where w.workspace = :workspace and w.transaction = t.id
        order by w.transaction desc, w.number desc
        limit 1
    ) as newest
    union all
    select
        n.transaction,
        case when e.at >= :at::timestamptz then n.low else m.middle end,
        case when e.at >= :at::timestamptz then m.middle else n.high end
    from by_number as n
    cross join lateral (select (n.low + n.high) / 2 as middle offset 0) as m
    left join lateral (
        select w.at
        from handraise.events as w
        where w.workspace = :workspace and w.transaction = n.transaction and w.number <= m.middle
        order by w.transaction desc, w.number desc
        limit 1
    ) as e on true
    where n.high - n.low > 1
)
select found.transaction, found.number
from by_number as n
cross join lateral (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace and w.transaction = n.transaction and w.number <= n.high
    order by w.transaction desc, w.number desc
    limit 1
) as found
where n.high - n.low <= 1 and found.at >= :at::timestamptz
limit 1;

-- name: endings
-- How questions ended since an instant, newest first, in few words. The walk and its edge are as in `settled`.
with page as materialized (
    select e.transaction, e.number, q.*
    from (
        select w.transaction, w.number, w.question_id, w.kind, w.at
        from handraise.events as w
        where w.workspace = :workspace
            and (w.transaction, w.number) < (:transaction::text::xid8, :number::bigint)
        order by w.transaction desc, w.number desc
        limit :looked::bigint
    ) as e
    cross join lateral (
        select
            s.id, s.asker, s.status, s.asked_at, s.settled_at, s.recipients,
            s.form ->> 'kind' as form_kind,
            s.outcome ->> 'by' as settled_by,
            case when s.status = 'answered' then coalesce(s.outcome ->> 'source', 'person') end as source,
            case when s.status in ('answered', 'declined', 'returned') then s.outcome ->> 'channel' end as channel,
            case
                when s.form ->> 'kind' = 'approval' and s.status = 'answered' and s.outcome -> 'source' is null
                    then s.outcome -> 'value' ->> 'decision' = 'approve'
            end as approved,
            case when s.form ->> 'kind' = 'approval' then s.form -> 'action' ->> 'tool' end as tool,
            case when s.form ->> 'kind' = 'approval' then coalesce(s.form ->> 'risk', 'medium') end as risk,
            (select jsonb_agg(v.name) from jsonb_object_keys(s.votes) as v (name)) as voters,
            (s.steps -> 0 ->> 'after')::float8 as promised_seconds,
            s.report ->> 'ok' = 'false' as failed
        from handraise.questions as s
        where s.workspace = :workspace and s.id = e.question_id
        limit 1
    ) as q
    where e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned') and e.at >= :since::timestamptz
    order by e.transaction desc, e.number desc
    limit :limit::bigint
),
edge as (
    select w.transaction, w.number, w.at
    from handraise.events as w
    where w.workspace = :workspace
        and (w.transaction, w.number) < (:transaction::text::xid8, :number::bigint)
        and (select count(*) from page) < :limit::bigint
    order by w.transaction desc, w.number desc
    offset :looked::bigint - 1
    limit 1
)
select page.*, edge.transaction as edge_transaction, edge.number as edge_number, edge.at as edge_at
from (select) as one
left join page on true
left join edge on true
order by page.transaction desc, page.number desc;

-- name: covering_stop
-- The oldest stop that covers a question.
select s.workspace, s.id, s.agent, s.tool, s.why, s.at, s.actor
from handraise.stops as s
where s.workspace = :workspace and (s.agent is null or s.agent = :asker) and (s.tool is null or s.tool = :tool)
order by s.at, s.id
limit 1;

-- name: count_pending
-- How many questions an asker has pending.
select count(*) from handraise.inbox where workspace = :workspace and asker = :asker and main;

-- name: history
-- The events of one question.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace and question_id = :question_id and question_id <> ''
order by events.number;

-- name: histories
-- The latest events of some kinds of several questions.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace and question_id = any (:ids::text[]) and question_id <> '' and kind = any (:kinds::text[])
order by events.number desc
limit :limit::bigint;

-- name: feed
-- Events of a workspace's questions after a cursor, only those older than every transaction still running.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace
    and question_id <> ''
    and (transaction, number) > (:transaction::text::xid8, :number::bigint)
    and transaction < (select handraise.feed_edge())
order by events.transaction, events.number
limit :limit;

-- name: settled_since
-- Which questions of a workspace were settled since a mark, and the next mark: the oldest transaction still running. What
-- commits later is of this transaction or a later one.
select (select handraise.feed_edge())::text as mark, e.question_id
from (select 1) as always
left join lateral (
    select question_id
    from handraise.events
    where workspace = :workspace
        and transaction >= :mark::text::xid8
        and question_id <> ''
        and kind = any (:kinds::text[])
    limit :limit
) as e on true;

-- name: trail
-- All events of a workspace after a cursor, only those older than every transaction still running.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace
    and (transaction, number) > (:transaction::text::xid8, :number::bigint)
    and transaction < (select handraise.feed_edge())
order by events.transaction, events.number
limit :limit;

-- name: workspace_events
-- The same of those that are not about a question.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace
    and question_id = ''
    and (transaction, number) > (:transaction::text::xid8, :number::bigint)
    and transaction < (select handraise.feed_edge())
order by events.transaction, events.number
limit :limit;

-- name: search_workspace_events
-- Those of them that are searched for, the newest first.
select transaction::text, number, at, workspace, question_id, kind, actor, channel, data
from handraise.events
where workspace = :workspace
    and question_id = ''
    and (transaction, number) < (:transaction::text::xid8, :number::bigint)
    and transaction < (select handraise.feed_edge())
    and (:person::text is null or actor = :person or data -> 'people' ? :person)
    and (:kind::text is null or kind = :kind)
    and (:since::timestamptz is null or at >= :since)
    and (:until::timestamptz is null or at < :until)
order by events.transaction desc, events.number desc
limit :limit;

-- name: feed_end
-- The last event that the feed of a workspace returns. Not the edge itself: after a crash, the numbers of transactions
-- that left nothing on the disk are used again, and a reader that began to follow at the edge would miss their events.
select transaction::text, number
from handraise.events
where workspace = :workspace and transaction < (select handraise.feed_edge())
order by events.transaction desc, events.number desc
limit 1;

-- name: queue_stats (may take long)
-- How many questions and deliveries wait, for how long, how many askers are at the quota, and what nobody can answer.
select pending, deliveries, oldest_due, askers_at_quota, unanswerable
from handraise.queue_stats(coalesce(:now::timestamptz, now()), :ages::float8[], :quota::bigint);

-- name: queue_stats_of_workspace (may take long)
-- How many questions wait in one workspace.
with aged as materialized (
    select extract(epoch from coalesce(:now::timestamptz, now()) - q.asked_at)::float8 as age
    from (
        select i.question_id from handraise.inbox as i where i.workspace = :workspace and i.main limit 100000
    ) as counted
    cross join lateral (
        select s.asked_at
        from handraise.questions as s
        where s.workspace = :workspace and s.id = counted.question_id
        limit 1
    ) as q
)
select array(
    select (select count(*) from aged where aged.age <= a.age)
    from unnest(:ages::float8[]) with ordinality as a (age, place)
    order by a.place
) as pending;

-- name: announce_listener
-- Say that this process listens, and whether for feeds too; it must say so again before the others
-- forget it.
insert into handraise.listeners (process, seen_at, feeds) values (:listener, now(), :feeds)
on conflict (process) do update set seen_at = excluded.seen_at;

-- name: forget_listener
-- Say that a listener has gone, and forget those that died without saying so.
delete from handraise.listeners where process = :listener or seen_at < now() - interval '1 hour';

-- name: notify
-- Wake the other processes; each hint is sent only if a process that wants it could be listening.
select hint.feed, pg_notify('handraise', hint.payload)
from (
    select payload, false as feed from unnest(:payloads::text[]) as t (payload)
    union all
    select payload, true from unnest(:feeds::text[]) as t (payload)
) as hint
where exists (
    select from handraise.listeners
    where process <> all (:listeners::text[]) and seen_at > now() - interval '30 seconds'
        and (feeds or not hint.feed)
);

-- name: settings
-- The settings that durability depends on.
select name, setting from pg_settings
where name in (
    'fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names', 'server_version', 'in_hot_standby'
);

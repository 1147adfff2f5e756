-- oldest release: 0.1.0
-- What was asked and how it ended never changes (P6), whoever writes; and a seal is believed in nothing that the store knows.

create function handraise.refuse_change() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'what was asked, and how it ended, does not change: %', tg_argv[0] using errcode = 'HR004';
end
$$;

-- Only a move to another shard names these columns, and brings them as they were; so these triggers cost nothing elsewhere. What may change after the end is not among them:
-- `consumed_at` once, `unreached_at`, and that a question is archived, moved or erased.
do $$
declare
    kept text;
begin
    foreach kept in array array['questions', 'archive']
    loop
        execute format(
            'create trigger asked_stays before update of id, asked_at, asker, key, conversation, tool_call, recipients, '
            'need, veto, max_attempts, prompt, form, context, state, steps, undo_for on handraise.%I '
            'for each row when ('
            '(old.id, old.asked_at, old.asker, old.key, old.conversation, old.tool_call, old.recipients, old.need, old.veto, '
            'old.max_attempts, old.prompt, old.form::text, old.context::text, old.state::text, old.steps, old.undo_for) '
            'is distinct from '
            '(new.id, new.asked_at, new.asker, new.key, new.conversation, new.tool_call, new.recipients, new.need, new.veto, '
            'new.max_attempts, new.prompt, new.form::text, new.context::text, new.state::text, new.steps, new.undo_for)) '
            'execute function handraise.refuse_change(''asked'')',
            kept
        );
        execute format(
            'create trigger settled_stays before update of status, settled_at, outcome, votes on handraise.%I '
            'for each row when (old.status <> ''pending'' and '
            '(old.status, old.settled_at, old.outcome::text, old.votes) is distinct from '
            '(new.status, new.settled_at, new.outcome::text, new.votes)) '
            'execute function handraise.refuse_change(''settled'')',
            kept
        );
        execute format(
            'create trigger consumed_stays before update of consumed_at on handraise.%I '
            'for each row when (old.consumed_at is not null and new.consumed_at is distinct from old.consumed_at) '
            'execute function handraise.refuse_change(''consumed'')',
            kept
        );
    end loop;
end
$$;

-- As before, and computes the bounds of the seal itself: from where it goes on, which events it covers, and which seals are let
-- go. `after_transaction`, `after_number` and `events` are what older releases say about that, and are ignored.
create or replace function handraise.append_seal(
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
    perform set_config(
        'handraise.workspace', encode(convert_to(append_seal.workspace, 'UTF8'), 'hex'), true
    );
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
            string_agg(e.transaction::text || '.' || e.number::text, ',' order by e.transaction, e.number), ''
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

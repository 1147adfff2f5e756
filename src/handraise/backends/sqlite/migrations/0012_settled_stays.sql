-- oldest release: 0.1.0
-- What was asked and how it ended never changes (P6), whoever writes. What may change after the end is not among these columns:
-- `consumed_at` once, and `unreached_at`.

create trigger asked_stays before update of
    id, asked_at, asker, key, conversation, tool_call, recipients, need, veto, max_attempts, prompt, form, context,
    state, steps, undo_for
on questions
begin
    select raise(abort, 'what was asked does not change');
end;

create trigger settled_stays before update of status, settled_at, outcome, votes on questions
when old.status <> 'pending'
begin
    select raise(abort, 'what was settled does not change');
end;

create trigger consumed_stays before update of consumed_at on questions
when old.consumed_at is not null and new.consumed_at is not old.consumed_at
begin
    select raise(abort, 'an approval is used up once');
end;

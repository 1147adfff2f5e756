-- oldest release: 0.1.0
-- Since when an approval that nobody has consumed is taken back.
alter table questions add column taken_back_at integer;

-- An approval is taken back once, and never one that was used, nor used when it was taken back, whoever writes.
create trigger taken_back_stays before update of consumed_at, taken_back_at on questions
when old.taken_back_at is not null and new.taken_back_at is not old.taken_back_at
    or new.taken_back_at is not null and new.consumed_at is not null
begin
    select raise(abort, 'an approval is taken back once, and only until it is used');
end;

-- oldest release: 0.1.0
-- When the last deed of a timeline was done: one that comes late puts off the next. The archive has the same columns as the
-- questions, in the same order.
alter table handraise.questions add column stepped_at timestamptz;
alter table handraise.archive add column stepped_at timestamptz;

-- When the next deed of a timeline is due; null where none is left. Behind the last one at least ten minutes are left, or
-- the planned gap where that is less.
create function handraise.due_at(asked_at timestamptz, stepped_at timestamptz, steps jsonb, steps_taken integer)
    returns timestamptz
    language sql stable parallel safe
    return case when steps_taken < jsonb_array_length(steps) then greatest(
        asked_at + (steps -> steps_taken ->> 'after')::float8 * interval '1 second',
        case when steps_taken > 0 then stepped_at + least(
            (steps -> steps_taken ->> 'after')::float8 - (steps -> (steps_taken - 1) ->> 'after')::float8, 600
        ) * interval '1 second' end
    ) end;

-- When the clock settles a question whose last deed was done at an instant; null where it never does.
create function handraise.end_at(expires_at timestamptz, stepped_at timestamptz, steps jsonb, steps_taken integer)
    returns timestamptz
    language sql stable parallel safe
    return case when expires_at is not null then greatest(expires_at, stepped_at + (
        select sum(least(
            (s.step ->> 'after')::float8 - (steps -> (s.place::integer - 2) ->> 'after')::float8, 600
        ))
        from jsonb_array_elements(steps) with ordinality as s (step, place)
        where s.place > steps_taken
    ) * interval '1 second') end;

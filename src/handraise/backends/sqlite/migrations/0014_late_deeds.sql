-- oldest release: 0.1.0
-- When the last deed of a timeline was done: one that comes late puts off the next.
alter table questions add column stepped_at integer;

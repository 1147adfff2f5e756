-- oldest release: 0.1.0
-- For how many seconds a person may take an answer back before it is sent. Null is not at all, and takes no room.
alter table handraise.questions add column undo_for double precision;

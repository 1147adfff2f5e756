-- oldest release: 0.1.0
-- Who made the link that a session began with, where that was somebody else.
alter table links add column vouched_by text;
alter table sessions add column vouched_by text;

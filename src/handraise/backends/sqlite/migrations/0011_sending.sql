-- oldest release: 0.1.0
-- When a question was shown in a chat of its asker's, and until when somebody has taken that on.
alter table questions add column sent_at integer;
alter table questions add column sending_until integer;

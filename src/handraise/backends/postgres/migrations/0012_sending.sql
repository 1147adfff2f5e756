-- oldest release: 0.1.0
-- When a question was shown in a chat of its asker's, and until when somebody has taken that on. The archive has the same
-- columns as the questions, in the same order.
alter table handraise.questions add column sent_at timestamptz, add column sending_until timestamptz;
alter table handraise.archive add column sent_at timestamptz, add column sending_until timestamptz;

-- oldest release: 0.1.0
-- A question whose grant holds is not removed.
create index grants_by_question on grants (workspace, question_id);

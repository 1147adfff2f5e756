-- A question whose grant holds is not removed.
create index grants_by_question on grants (workspace, question_id);

-- oldest release: 0.1.0
-- Another key under which a question is found: that of a call that waits for the same answer. Its event has it, so that it
-- stays and goes with the question.
create unique index events_by_key on events (workspace, actor, data ->> '$.key') where kind = 'joined';

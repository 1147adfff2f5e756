-- What PostgreSQL does with policies in its own way: functions of the schema say who may still answer.


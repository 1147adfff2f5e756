-- oldest release: 0.1.0
-- The oldest release that works on the schema that a migration made: that release may start after the migration.
-- Null says that it was not stated, and then no release before it may.
alter table handraise.migrations add column oldest_release text;

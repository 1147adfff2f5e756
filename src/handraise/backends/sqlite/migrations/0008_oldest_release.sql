-- oldest release: 0.1.0
-- The migrations from here on, each with the oldest release that works on the schema that it made: that release may
-- open the file after the migration.
create table migrations (
    number          integer primary key,
    name            text    not null,
    oldest_release  text    not null
) strict;

-- A database for Handraise with its roles. Run it with psql 15 or newer, as somebody who may create both; doing it
-- again changes nothing but the passwords:
--
--     psql --file deploy/postgres/roles.sql postgres
--
-- `handraise_owner` owns the schema and brings it up to date. `handraise_server` is whom servers log in as: it owns
-- nothing, so row-level security keeps workspaces apart for it. `handraise_operator` may also erase and remove questions. Their
-- passwords come from OWNER_PASSWORD, SERVER_PASSWORD and OPERATOR_PASSWORD if the environment has these, else none is
-- set. For other names: --set database=questions --set owner=… --set server=… --set operator=….

\set ON_ERROR_STOP on

\if :{?database}
\else
    \set database handraise
\endif
\if :{?owner}
\else
    \set owner handraise_owner
\endif
\if :{?server}
\else
    \set server handraise_server
\endif
\if :{?operator}
\else
    \set operator handraise_operator
\endif
\getenv owner_password OWNER_PASSWORD
\getenv operator_password OPERATOR_PASSWORD
\getenv server_password SERVER_PASSWORD

select format('create role %I %s', name, may)
from (
    values
        (:'owner', 'login'), (:'server', 'login'), (:'operator', 'login'), ('handraise_app', 'nologin'),
        ('handraise_keeper', 'nologin')
) as wanted (name, may)
where to_regrole(quote_ident(name)) is null
\gexec

-- The roles that the others get their rights from; migrations grant these to them.
grant handraise_app to :"server", :"operator";
grant handraise_keeper to :"operator";

-- So that somebody who is no superuser can give the database away.
select format('grant %I to current_user', :'owner')
from pg_roles
where rolname = current_user and not rolsuper
\gexec

select format('create database %I owner %I', :'database', :'owner')
where not exists (select from pg_database where datname = :'database')
\gexec

revoke all on database :"database" from public;
grant connect on database :"database" to :"server", :"operator";

\if :{?owner_password}
    alter role :"owner" password :'owner_password';
\endif
\if :{?operator_password}
    alter role :"operator" password :'operator_password';
\endif
\if :{?server_password}
    alter role :"server" password :'server_password';
\endif

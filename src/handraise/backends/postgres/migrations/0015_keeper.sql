-- oldest release: 0.1.0
-- Erasing and removing have a role of their own, `handraise_keeper`: with the password of a server nobody makes history go.

do $$
begin
    create role handraise_keeper nologin;
    grant handraise_keeper to current_user;
exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
end
$$;

-- As before, with what is new.
alter function handraise.allow_app rename to allow_app_before_keeper;

create function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.allow_app_before_keeper();
    revoke execute
        on function handraise.erase_questions, handraise.erase_person, handraise.remove_archived,
            handraise.drop_archive_months
        from handraise_app;
    -- A rule that keeps nothing, or a hold that is lifted, would make others remove what a server may not.
    revoke insert, update, delete on handraise.retention from handraise_app;
    revoke delete on handraise.holds from handraise_app;
    if to_regrole('handraise_keeper') is not null then
        grant usage on schema handraise to handraise_keeper;
        grant execute
            on function handraise.erase_questions, handraise.erase_person, handraise.remove_archived,
                handraise.drop_archive_months
            to handraise_keeper;
        grant select, insert, update, delete on handraise.retention to handraise_keeper;
        grant select, delete on handraise.holds to handraise_keeper;
        -- What the fence of a shard looks at.
        grant select, update on handraise.homes to handraise_keeper;
        grant insert on handraise.changes to handraise_keeper;
    end if;
end
$$;

revoke execute on function handraise.allow_app from public;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;

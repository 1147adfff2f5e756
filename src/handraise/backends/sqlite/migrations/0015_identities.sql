-- oldest release: 0.1.0
-- The account at an OIDC provider that a person came in with first: a digest of its issuer and subject.
alter table people add column identity text;

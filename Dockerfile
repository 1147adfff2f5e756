# The server of Handraise: docker build --tag handraise .

# The base by its digest, which is the index of all architectures. Dependabot brings newer ones.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
WORKDIR /src
RUN python -m venv /opt/build && python -m venv --without-pip /opt/handraise
COPY pyproject.toml hatch_build.py README.md LICENSE requirements-build.txt requirements-image.txt ./
COPY src src
# Every file is one that we have seen: its hash is in requirements-*.txt. Wheels only: a dependency that wants a compiler stops the
# build instead of bringing one along. http-ece, which web push needs, is pure Python and has no wheel.
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements-build.txt \
    && /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes --only-binary :all: \
        --no-binary http-ece --wheel-dir wheels --requirement requirements-image.txt \
    && /opt/build/bin/pip --python /opt/handraise/bin/python install --no-cache-dir --no-index --find-links wheels \
        "$(echo dist/*.whl)[server,postgres,nats,oidc,scim,otel,fast,slack,email,ses,push,telegram,discord,teams,apprise,audit,passkeys,calendars,images,objects]"

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Handraise" \
      org.opencontainers.image.description="Durable questions from agents to people: the server" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 10001 handraise \
    && useradd --no-log-init --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/handraise \
        --shell /usr/sbin/nologin handraise \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/handraise
COPY --from=build /opt/handraise /opt/handraise
ENV PATH=/opt/handraise/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HANDRAISE_HOST=0.0.0.0 \
    HANDRAISE_PORT=8765 \
    HANDRAISE_URL=sqlite:////var/lib/handraise/handraise.db
# A number, not a name: Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/handraise
EXPOSE 8765
# Not urllib: it would send the probe to a proxy that the environment names.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, sys; from http.client import HTTPConnection as C; c = C('127.0.0.1', int(os.environ['HANDRAISE_PORT']), timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["handraise"]
CMD ["serve"]

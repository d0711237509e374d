# One image for each server: docker build --target green|purple|mcp|ui|ray .
#
# Each takes --host, --port and --card-url behind its entry point, runs without root, and holds curl
# for the health checks of launchers.

FROM python:3.12-slim AS base

RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY locks ./locks
COPY src ./src
COPY packages ./packages
# Every package with the hash that was tested, the build backend and the installer among them.
ENV UV_COMPILE_BYTECODE=1 \
    UV_NO_CACHE=1
RUN python -m pip install --no-cache-dir --require-hashes --requirement locks/uv.lock \
    && uv pip install --python "$(command -v python)" --require-hashes --requirement locks/image.lock \
    && uv pip install --python "$(command -v python)" --no-deps --no-build-isolation . ./packages/agent-assay-minilm \
    && python -m pip uninstall --yes uv

# In a container the network says who can connect (ASSAY_OPEN); ASSAY_TOKEN asks callers for a token.
#
# What the servers keep: fetched data and built indexes in /cache, runs in /runs.
RUN useradd --create-home --uid 10001 assay \
    && mkdir /cache /runs \
    && chown assay:assay /cache /runs
ENV ASSAY_CACHE=/cache \
    ASSAY_OUT=/runs \
    PYTHONUNBUFFERED=1 \
    ASSAY_OPEN=1
USER assay
WORKDIR /home/assay

FROM base AS ui
EXPOSE 9000
HEALTHCHECK --interval=5s --timeout=3s --retries=10 --start-period=30s \
    CMD curl --fail --silent http://localhost:9000/health
ENTRYPOINT ["assay", "serve", "ui"]
CMD ["--host", "0.0.0.0"]

# A node of a Ray cluster, for --engine ray.
FROM base AS ray
USER root
RUN python -m pip install --no-cache-dir --require-hashes --requirement /app/locks/ray.lock
USER assay
EXPOSE 6379 10001
ENTRYPOINT ["ray", "start", "--block", "--disable-usage-stats"]
CMD ["--head"]

FROM base AS mcp
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=3s --retries=10 --start-period=600s \
    CMD curl --fail --silent http://localhost:8000/health/ready
ENTRYPOINT ["assay", "serve", "mcp"]
CMD ["--host", "0.0.0.0"]

FROM base AS purple
EXPOSE 9010
HEALTHCHECK --interval=5s --timeout=3s --retries=10 --start-period=30s \
    CMD curl --fail --silent http://localhost:9010/.well-known/agent-card.json
ENTRYPOINT ["assay", "serve", "purple"]
CMD ["--host", "0.0.0.0"]

FROM base AS green
EXPOSE 9009
HEALTHCHECK --interval=5s --timeout=3s --retries=10 --start-period=30s \
    CMD curl --fail --silent http://localhost:9009/.well-known/agent-card.json
ENTRYPOINT ["assay", "serve", "green"]
CMD ["--host", "0.0.0.0"]

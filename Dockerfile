# The locked environment with the workflow: docs/reproduce.md says how to run it.
FROM python:3.11-slim-bookworm

# git: results name the commit of the code. The compiler's runtime is all that numba and torch need besides.
RUN apt-get update \
    && apt-get install -y --no-install-recommends git=1:2.39.* libgomp1=12.* \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /marginalia
ENV PATH=/marginalia/.venv/bin:$PATH \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1

# What the environment depends on comes first, so that an edit of the code does not install it anew.
COPY pyproject.toml README.md LICENSE ./
COPY envs envs
COPY src src
RUN python3 envs/install.py

COPY . .

CMD ["snakemake"]

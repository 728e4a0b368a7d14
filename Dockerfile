# One image for every part of the stack; the command decides which. docker-compose.yml builds it with TORCH=cpu:
# PyTorch's CPU build brings no CUDA libraries and no Triton.
FROM python:3.11-slim-bookworm
ARG TORCH=cuda
# gcc compiles the attention for the CPU at hand, and the launchers of Triton's kernels.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bubblewrap libseccomp2 gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home bassline && mkdir /cache && chown bassline /cache
WORKDIR /srv/bassline
# PyTorch, then all other dependencies, then the code: an edit installs only what comes after it.
COPY constraints.txt ./
RUN if [ "$TORCH" = cpu ]; then index="--extra-index-url https://download.pytorch.org/whl/cpu"; else index=""; fi \
 && pip install --no-cache-dir --constraint constraints.txt $index torch
COPY pyproject.toml ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
      print(*project['dependencies'], *sum(project['optional-dependencies'].values(), []), sep='\n')" \
      > /tmp/requirements.txt \
 && pip install --no-cache-dir --constraint constraints.txt --requirement /tmp/requirements.txt \
 && rm /tmp/requirements.txt
COPY README.md LICENSE ./
COPY kernels kernels
COPY decoding decoding
COPY evaluation evaluation
COPY app app
COPY migrations migrations
COPY benchmarks benchmarks
COPY docs/results docs/results
RUN pip install --no-cache-dir --no-deps .
USER bassline
# Homes are read-only in the stack: what libraries keep there by default goes to the model cache or to /tmp.
ENV PYTHONUNBUFFERED=1 USE_HUB_KERNELS=NO BASSLINE_CACHE_DIR=/cache HF_HOME=/cache/huggingface TRITON_CACHE_DIR=/cache/triton
ENTRYPOINT ["bassline"]
CMD ["serve"]

# One image for every part of the stack; the command decides which. Build with TORCH=cpu for machines without a GPU.
FROM python:3.11-slim-bookworm
ARG TORCH=cuda
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bubblewrap libseccomp2 gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/bassline
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY kernels kernels
COPY decoding decoding
COPY evaluation evaluation
COPY app app
COPY migrations migrations
COPY benchmarks benchmarks
RUN if [ "$TORCH" = cpu ]; then \
      pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu . ; \
    else \
      pip install --no-cache-dir --constraint constraints.txt . ; \
    fi
RUN useradd --uid 10001 --create-home bassline && mkdir /cache && chown bassline /cache
USER bassline
ENV PYTHONUNBUFFERED=1 BASSLINE_CACHE_DIR=/cache HF_HOME=/tmp/huggingface USE_HUB_KERNELS=NO
ENTRYPOINT ["bassline"]
CMD ["serve"]

# cory with torch's CUDA build and the versions of requirements.lock. docs/hardware.md says how to build and run it.
FROM python:3.11-slim
ARG TORCH=torch==2.13.0

# DeepSpeed and torch compile small pieces when they are first used
RUN apt-get update && apt-get install -y --no-install-recommends build-essential git \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/cory
COPY . .
RUN pip install --no-cache-dir "$TORCH" \
    && pip install --no-cache-dir --constraint requirements.lock ".[eval,openai,sweep]" "$TORCH"

WORKDIR /experiments
ENTRYPOINT ["cory-train"]

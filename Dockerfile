# Attention Atlas in a container: the page on port 7860, as a user without rights, on the CPU, with no need of a network.
#
#   docker build --build-arg PIP_ARGS="--extra-index-url <PyTorch's CPU wheel index, see pytorch.org>" -t attention-atlas .
#   docker run --rm -p 7860:7860 -v atlas-models:/models --read-only --tmpfs /tmp attention-atlas
#
# It computes with as many threads as it may use cores, at most 4; `-e OMP_NUM_THREADS=2` says otherwise, as where only its time is limited
# (`--cpus`). Without PIP_ARGS the image holds 3 GB of CUDA libraries, which a CPU has no use for.

FROM python:3.12-slim AS build
ARG PIP_ARGS=""
WORKDIR /build
COPY requirements.txt constraints.txt ./
# An environment of its own, which the second stage takes over whole.
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check -r requirements.txt -c constraints.txt ${PIP_ARGS}

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --create-home --uid 1000 atlas && install --directory --owner atlas /models
WORKDIR /app
COPY app.py README.md ./
COPY model model
COPY viz viz
ENV PATH=/venv/bin:$PATH \
    PORT=7860 \
    GRADIO_SERVER_NAME=0.0.0.0 \
    HF_HOME=/models \
    HF_HUB_DISABLE_TELEMETRY=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
RUN python -m compileall -q app.py model viz
USER 1000
# Models that visitors load stay here, from one container to the next.
VOLUME /models
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/gradio_api/app_id', timeout=5)"]
CMD ["python", "app.py"]

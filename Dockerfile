# Trains and serves. `docker build -t bert .`, then for example:
#   docker run --user "$(id -u):$(id -g)" -e HOME=/tmp -v "$PWD:/work" \
#     bert bert-classify --pretrained=DIR --train_file=train.tsv ...
# Serves alone, without the packages of scores and of the hub:
#   docker build -t bert-serve --target=serve .
#   docker run -p 127.0.0.1:8501:8501 -v "$PWD/output/messages/export:/export" bert-serve \
#     bert-serve --export_dir=/export --host=0.0.0.0
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels /source

FROM python:3.12-slim AS serve
COPY --from=build /wheels /source/constraints.txt /wheels/
RUN set -- /wheels/*.whl \
  && pip install --no-cache-dir -c /wheels/constraints.txt "$1[serve,onnx]" \
  && useradd --create-home bert
USER bert
WORKDIR /work
EXPOSE 8501
# 503 while the model loads, and while the server stops. The image has no curl.
HEALTHCHECK --start-period=300s --interval=10s --timeout=5s CMD ["python", "-c", \
  "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/health/ready')"]
CMD ["bert-serve", "--help"]

FROM serve AS train
USER root
RUN set -- /wheels/*.whl \
  && pip install --no-cache-dir -c /wheels/constraints.txt "$1[chinese,hub,seq2seq]"
USER bert
# A training answers no requests.
HEALTHCHECK NONE
CMD ["bert-classify", "--help"]

# Trains and serves. `docker build -t bert .`, then for example:
#   docker run -v "$PWD:/work" bert bert-classify --pretrained=DIR --train_file=train.tsv ...
#   docker run -p 127.0.0.1:8501:8501 -v "$PWD/output/messages/export:/export" bert \
#     bert-serve --export_dir=/export --host=0.0.0.0
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels /source

FROM python:3.12-slim
COPY --from=build /wheels /source/constraints.txt /wheels/
RUN set -- /wheels/*.whl \
  && pip install --no-cache-dir -c /wheels/constraints.txt "$1[chinese,hub,seq2seq,serve]" \
  && useradd --create-home bert
USER bert
WORKDIR /work
EXPOSE 8501
CMD ["bert-classify", "--help"]

"""The peer's network in other runtimes: `python -m benchmarks.peer_runtimes JOB`.

ONNX Runtime, with its own fusions and with int8 weights; OpenVINO, in float32, bfloat16
and int8 calibrated by nncf; fastembed. PyTorch writes the files in another process, and
what is converted stays in `job.cache`.
"""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys

import numpy as np
import tokenizers

from benchmarks import sides
from contract import cores


def run(job):
    """Does one turn, with the results of ours.run."""
    folder = os.path.join(job.cache, job.head)
    product = f"{folder}/product.onnx"
    if not os.path.exists(product):  # the last file of an export
        export = {"action": "export", "variant": "eager", "export": folder}
        settings = json.dumps({**dataclasses.asdict(job), **export})
        command = [sys.executable, "-m", "benchmarks.peer", settings]
        subprocess.run(command, check=True, stdout=sys.stderr)
    package, _, mode = job.variant.partition("_")
    is_fastembed = package == "fastembed"
    answer = (_fastembed if is_fastembed else _texts_to_scores)(job, folder)
    figures = sides.time_answers(answer, job)
    x = np.random.default_rng(1).random([sides.PEAK_SIZE] * 2, np.float32)
    multiply = ENGINES["onnxruntime" if is_fastembed else package](product, mode)
    versions = {package: importlib.metadata.version(package)}
    return sides.described(figures, lambda: multiply({"x": x}), versions)


def _texts_to_scores(job, folder):
    """A function of texts, to probabilities or vectors."""
    engine, _, mode = job.variant.partition("_")
    path, encode = f"{folder}/model.onnx", _encoder(job, folder)
    if mode in ("fused", "int8", "static"):
        end = "xml" if mode == "static" else "onnx"
        source, path = path, f"{folder}/{job.variant}.{end}"
        if not os.path.exists(path):
            texts = sides.read_texts(f"{job.cache}/calibration.json")
            _convert(mode, source, path, [encode([text]) for text in texts])
    compute = ENGINES[engine](path, mode)

    def answer(texts):
        scores = compute(encode(texts))
        if job.head == "text_encoder":
            return scores
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    return answer


def _encoder(job, folder):
    """A function of texts, to inputs int64 [B, S] by name."""
    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(job.max_seq_length)
    tokenizer.enable_padding()

    def encode(texts):
        rows = tokenizer.encode_batch(texts)
        each = ((row.ids, row.attention_mask, row.type_ids) for row in rows)
        return dict(
            zip(sides.PEER_NAMES, map(np.array, zip(*each, strict=True)), strict=True)
        )

    return encode


def _convert(mode, source, path, calibration):
    """Writes the file of a mode; `calibration` are inputs of single texts."""
    if mode == "fused":
        from onnxruntime.transformers import optimizer

        with open(f"{os.path.dirname(path)}/config.json", encoding="utf-8") as file:
            config = json.load(file)
        # Where it has to find them, attention is not fused.
        sizes = config["num_attention_heads"], config["hidden_size"]
        fused = optimizer.optimize_model(source, "bert", *sizes, opt_level=1)
        fused.save_model_to_file(path)
    elif mode == "int8":
        from onnxruntime import quantization

        quantization.quantize_dynamic(source, path, per_channel=True)
    else:
        import nncf
        import openvino

        quantized = nncf.quantize(
            openvino.Core().read_model(source),
            nncf.Dataset(calibration),
            subset_size=len(calibration),
            model_type=nncf.ModelType.TRANSFORMER,
        )
        openvino.save_model(quantized, path, compress_to_fp16=False)


def _onnxruntime(path, _):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores.usable()
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return lambda arrays: session.run(None, arrays)[0]


def _openvino(path, mode):
    import openvino

    core, wanted = openvino.Core(), "bf16" if mode == "bf16" else "f32"
    if mode == "bf16" and "BF16" not in core.get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    ):
        sys.exit("the processor has no units for bfloat16")
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": cores.usable(),
        "INFERENCE_PRECISION_HINT": wanted,
    }
    request = core.compile_model(path, "CPU", settings).create_infer_request()
    return lambda arrays: request.infer(arrays)[0].copy()


ENGINES = {"onnxruntime": _onnxruntime, "openvino": _openvino}


def _fastembed(job, folder):
    """A function of texts, to the vectors that model.onnx has pooled."""
    import fastembed
    from fastembed.common import model_description

    fastembed.TextEmbedding.add_custom_model(
        "local",
        pooling=model_description.PoolingType.DISABLED,
        normalization=False,
        sources=model_description.ModelSource(hf="local"),
        dim=1,  # not read
        model_file="model.onnx",
    )
    model = fastembed.TextEmbedding(
        "local", specific_model_path=folder, threads=cores.usable()
    )
    return lambda texts: np.stack([*model.embed(texts, batch_size=len(texts))])


if __name__ == "__main__":
    print(json.dumps(run(sides.Job(**json.loads(sys.argv[1])))))

"""The peer's network in other runtimes: `python -m benchmarks.peer_runtimes JOB`.

ONNX Runtime, with its own fusions and with int8 weights; OpenVINO, in float32, bfloat16
and int8 calibrated by nncf; fastembed. The files are written in other processes, whose
memory is not this one's, and what is converted stays in `job.cache`.
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
        _start("peer", job, action="export", variant="eager", export=folder)
    if job.action == "convert":
        return _convert(job, folder)
    package, _, mode = job.variant.partition("_")
    is_fastembed = package == "fastembed"
    answer = (_fastembed if is_fastembed else _texts_to_scores)(job, folder)
    figures = sides.time_answers(answer, job)
    x = np.random.default_rng(1).random([sides.PEAK_SIZE] * 2, np.float32)
    multiply = ENGINES["onnxruntime" if is_fastembed else package](product, mode)
    versions = {package: importlib.metadata.version(package)}
    return sides.described(figures, lambda: multiply({"x": x}), versions)


def _start(module, job, **changes):
    """Runs a module of benchmarks/ with a changed job."""
    settings = json.dumps({**dataclasses.asdict(job), **changes})
    command = [sys.executable, "-m", f"benchmarks.{module}", settings]
    subprocess.run(command, check=True, stdout=sys.stderr)


def _file(job, folder):
    """The file of a variant, and whether it is converted from that of transformers."""
    engine, *modes = job.variant.split("_")
    converted = [mode for mode in modes if mode in ("fused", "int8", "static")]
    name = "_".join([engine, *converted]) if converted else "model"
    return f"{folder}/{name}.{'xml' if 'static' in modes else 'onnx'}", bool(converted)


def _texts_to_scores(job, folder):
    """A function of texts, to probabilities or vectors."""
    engine, _, mode = job.variant.partition("_")
    (path, is_converted), encode = _file(job, folder), _encoder(job, folder)
    if is_converted and not os.path.exists(path):
        _start("peer_runtimes", job, action="convert")
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


def _convert(job, folder):
    """Writes the file of a variant."""
    modes, (path, _) = job.variant.split("_"), _file(job, folder)
    source = f"{folder}/model.onnx"
    if "fused" in modes:
        from onnxruntime.transformers import fusion_options, optimizer

        with open(f"{folder}/config.json", encoding="utf-8") as file:
            config = json.load(file)
        # Where it has to find them, attention is not fused.
        sizes = config["num_attention_heads"], config["hidden_size"]
        options = fusion_options.FusionOptions("bert")
        options.enable_skip_layer_norm = options.enable_bias_skip_layer_norm = False
        fused = optimizer.optimize_model(
            source, "bert", *sizes, optimization_options=options, opt_level=1
        )
        fused.save_model_to_file(source := path)
    if "int8" in modes:
        from onnxruntime import quantization

        settings = {"DefaultTensorType": 1}  # fused operations give floats
        quantization.quantize_dynamic(
            source, path, per_channel=True, extra_options=settings
        )
    elif "static" in modes:
        import nncf
        import openvino

        encode = _encoder(job, folder)
        texts = sides.read_texts(f"{job.cache}/calibration.json")
        calibration = [encode([text]) for text in texts]
        quantized = nncf.quantize(
            openvino.Core().read_model(source),
            nncf.Dataset(calibration),
            subset_size=len(calibration),
            model_type=nncf.ModelType.TRANSFORMER,
        )
        openvino.save_model(quantized, path, compress_to_fp16=False)
    return {}


def _onnxruntime(path, _):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores.usable()
    session = onnxruntime.InferenceSession(
        path,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],  # takes longer on CPUs
    )
    return lambda arrays: session.run(None, arrays)[0]


def _openvino(path, mode):
    import openvino

    core, wanted = openvino.Core(), "bf16" if "bf16" in mode else "f32"
    if wanted == "bf16" and "BF16" not in core.get_property(
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

"""Training that is timed: this project's, and that of transformers with PyTorch.

Each side runs in a Python of its own, which may lack what the other needs, so libraries
are imported where they are used.
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported


def open_pretrained(directory, head="none", num_classes=None):
    """Tokenizer and model of a directory, with one of models.HEADS."""
    from data_pipeline.text import tokenization
    from modeling import models
    from modeling.checkpoints import checkpoint, pretrained

    files = pretrained.locate(directory)
    tokenizer = tokenization.BertTokenizer.from_file(
        files.vocab_file, files.do_lower_case is not False
    )
    config = pretrained.read_config(files.config_file)
    model = models.build(head, num_classes, config)
    print(checkpoint.load(model, files.checkpoint), file=sys.stderr)
    return tokenizer, model


def time_ours(model, objective, batches, warm_up_steps, num_steps):
    """Trains with this project's loop; returns seconds and tokens of `num_steps`.

    Before them come `warm_up_steps`, the first of which traces; `batches` must suffice
    for both.
    """
    import tensorflow as tf

    from training import steps
    from training.optimization import loss_scale, optimizer

    adam = optimizer.BertAdam()
    adam.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    train = steps.train_function(
        model, adam, objective, strategy, seed=1, jit_compile=False
    )
    iterator = iter(batches)
    rates = tf.fill([max(warm_up_steps, num_steps)], 1e-5)
    step, scaling = tf.constant(0, tf.int64), loss_scale.of({})
    train(iterator, rates, tf.constant(warm_up_steps), step, scaling)
    begin = time.perf_counter()
    results, _ = train(iterator, rates, tf.constant(num_steps), step, scaling)
    tokens = float(results["tokens"])
    return time.perf_counter() - begin, tokens


def time_hugging_face(model, batches, warm_up_steps):
    """Trains a model of transformers, labels being among the features of a batch.

    Returns seconds and tokens after warm-up; making a batch is not timed.
    """
    import torch

    torch.set_num_threads(os.cpu_count())
    model.train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5)
    seconds, tokens = 0.0, 0
    for step, batch in enumerate(batches):
        begin = time.perf_counter()
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
        if step >= warm_up_steps:
            seconds += time.perf_counter() - begin
            tokens += int(batch["attention_mask"].sum())
    return seconds, tokens


def random_batches(tokenizer, rows, batch_size, num_batches):
    """Batches of rows drawn at random, padded to the longest by Hugging Face."""
    import numpy as np

    rng = np.random.default_rng(1)
    for _ in range(num_batches):
        chosen = [rows[i] for i in rng.integers(len(rows), size=batch_size)]
        yield tokenizer.pad(chosen, return_tensors="pt")


def shares_of_peak(config, seconds, tokens, predictions=0):
    """The machine's measured peak, and the share of it (0..1) that useful work took.

    That is 6 operations a weight of the blocks and token, and a weight of the masked-LM
    head and prediction; attention is not counted.
    """
    d = config.hidden_size
    blocks = config.num_hidden_layers * (4 * d**2 + 2 * d * config.intermediate_size)
    head = d**2 + d * config.vocab_size
    gflop = 6 * (blocks * tokens + head * predictions) / 1e9
    peak = peak_gflops()
    return {"peak_gflops": peak, "share_of_peak": gflop / seconds / peak}


def peak_gflops(size=2048, rounds=10):
    """Billions of floating-point operations a second of a large float32 product."""
    import tensorflow as tf

    x = tf.random.normal([size, size])
    product = tf.function(lambda: tf.matmul(x, x))
    product()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - begin)
    return 2 * size**3 / min(seconds) / 1e9

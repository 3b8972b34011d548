"""The peer of benchmarks/speedrun.py: `python -m benchmarks.speedrun_peer DIR 40`.

transformers' Trainer on the sentences, the vocabulary and the network of a speedrun's
directory DIR, for so many steps: 256 sentences of similar length, masked as the recipe
masks them, logits of masked tokens alone where the network can, AdamW. Prints, as JSON,
the sentences that a second of the processor takes, without the first five steps. Needs
torch, transformers and accelerate.
"""

import json
import os
import pathlib
import random
import sys
import time

import torch
import transformers

from contract import cores

_WARM_UP, _BATCH_SIZE = 5, 256
_IDS = "pad", "cls", "sep"  # which a config of another vocabulary has elsewhere


class _Clock(transformers.TrainerCallback):
    begun = 0.0

    def on_step_end(self, args, state, control, **_):
        if state.global_step == _WARM_UP:
            self.begun = time.process_time()


def run(directory: str, num_steps: int) -> dict[str, object]:
    """{"sentences_per_second", "loss", "versions"} of a training."""
    torch.set_num_threads(cores.usable())
    here, clock = pathlib.Path(directory), _Clock()
    lines = (here / "train.txt").read_text("utf-8").split("\n\n")
    lines = random.Random(1).sample(lines, num_steps * _BATCH_SIZE)
    tokenizer = transformers.BertTokenizerFast(str(here / "vocab.txt"))
    ids = tokenizer(lines, truncation=True, max_length=64)["input_ids"]
    sizes = json.loads((here / "bert_config.json").read_text("utf-8"))
    config = transformers.AutoConfig.for_model(
        sizes.pop("model_type", "bert"),
        **sizes,
        sparse_prediction=True,  # ModernBERT's own saving
        **{f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in _IDS},
    )
    settings = transformers.TrainingArguments(
        output_dir=str(here / "peer"),
        max_steps=num_steps,
        per_device_train_batch_size=_BATCH_SIZE,
        learning_rate=1e-3,
        train_sampling_strategy="group_by_length",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=1,
    )
    collate = transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=0.3, mask_replace_prob=0.9, random_replace_prob=0.1
    )
    trainer = transformers.Trainer(
        transformers.AutoModelForMaskedLM.from_config(config),
        settings,
        collate,
        [{"input_ids": each} for each in ids],
        callbacks=[clock],
    )
    loss = trainer.train().training_loss
    seconds = time.process_time() - clock.begun
    libraries = {"PyTorch": torch, "transformers": transformers}
    return {
        "sentences_per_second": (num_steps - _WARM_UP) * _BATCH_SIZE / seconds,
        "loss": loss,
        "versions": {name: each.__version__ for name, each in libraries.items()},
    }


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))

"""The commands of an installed wheel; each runs the script or program of its name."""

import functools
import runpy
import sys

from contract import programs


def _run(name: str, *flags: str) -> None:
    sys.argv[1:1] = flags
    module = f"{programs.PACKAGE}.{name}".lstrip(".")
    runpy.run_module(module, run_name="__main__", alter_sys=True)


classify = functools.partial(_run, "run_classifier")
squad = functools.partial(_run, "run_squad")
tag = functools.partial(_run, "run_tagger")
seq2seq = functools.partial(_run, "run_seq2seq")
embed = functools.partial(_run, "run_embedding")
generate = functools.partial(_run, "run_generation")
pretrain = functools.partial(_run, "run_pretraining")
create_data = functools.partial(_run, "create_pretraining_data")
vocab = functools.partial(_run, "build_vocab")
features = functools.partial(_run, "extract_features")
convert = functools.partial(_run, "convert_checkpoint")
predict = functools.partial(_run, "serving.predictor")
serve = functools.partial(_run, "serving.predictor", "--serve")
search = functools.partial(_run, "serving.search")
compare = functools.partial(_run, "reports.compare")

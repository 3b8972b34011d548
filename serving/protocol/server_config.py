"""Files with which TensorFlow Serving starts: its models and its batching."""

import os

from contract import atomic_files

FOLDER = "config"
_MODELS = """\
# For --model_config_file, where the export is mounted as the container's base_path.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""
_BATCHING = """\
# For --enable_batching --batching_parameters_file. A request with more rows than
# max_batch_size is refused. Give num_batch_threads the number of the server's cores.
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
num_batch_threads { value: 2 }
max_enqueued_batches { value: 100 }
"""


def write(export_dir: str) -> None:
    """Writes models.config and batching_parameters.txt to `config` beside the export.

    The model has the name of the directory that holds both.
    """
    output_dir = os.path.dirname(export_dir.rstrip("/"))
    name = os.path.basename(os.path.abspath(output_dir))
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    folder = os.path.join(output_dir, FOLDER)
    atomic_files.write(
        {
            os.path.join(folder, "models.config"): [_MODELS.format(name=quoted)],
            os.path.join(folder, "batching_parameters.txt"): [_BATCHING],
        }
    )

"""Converts weights between the files of the originals and Hugging Face's.

See docs/checkpoints.md.

    python convert_checkpoint.py --input=model --to=hugging_face --output_dir=converted
"""

import os

from cli import command_line
from tasks.settings.conversion import ConversionSettings


def main() -> None:
    settings = command_line.parse(ConversionSettings, __doc__)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # nothing here needs a GPU
    command_line.load_tensorflow()
    from tasks import conversion

    command_line.run(conversion.run, settings)


if __name__ == "__main__":
    main()

r"""Writes texts with a left-to-right network, scores texts with it, and exports it.

    python run_generation.py --pretrained=DIR --prompt="The river" --temperature=0.7
    python run_generation.py --pretrained=DIR --score_file=texts.txt

See docs/generation.md.
"""

from cli import command_line
from tasks.settings.generation import GenerationSettings


def main() -> None:
    settings = command_line.parse(GenerationSettings, __doc__)
    command_line.load_tensorflow(serves=True)
    from tasks import generation

    command_line.run(generation.run, settings)


if __name__ == "__main__":
    main()

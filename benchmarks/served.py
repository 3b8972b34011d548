"""This project's side of a row of serving: `python -m benchmarks.served JOB`.

As benchmarks/ours.py, in the environment of a server; so is run_generation.py's.
"""

import json
import sys

from cli import environment

environment.prepare(serves=True)  # before TensorFlow is imported

from benchmarks import ours, sides

if __name__ == "__main__":
    print(json.dumps(ours.run(sides.Job.from_json(sys.argv[1]))))

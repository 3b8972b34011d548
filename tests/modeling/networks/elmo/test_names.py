import json
import pathlib

import pytest

from modeling.checkpoints import names
from modeling.configs import config_files
from modeling.networks import catalogue
from modeling.networks.elmo import names as elmo_names

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "elmo"


def test_names_are_those_of_the_original():
    expected = json.loads((GOLDEN / "checkpoint_names.json").read_text())
    config = config_files.read(GOLDEN / "skip_options.json")
    head = [names.head_rows(config)[path] for path in elmo_names.HEAD]
    network = names.network_rows(config)
    assert {row.google: row.hdf5 for row in [*network, *head]} == expected
    assert len(network) + len(head) == len(expected) == 31
    assert not any(config.spec.is_head(row.path) for row in network)
    assert all(config.spec.is_head(row.path) for row in head)
    for row in network:
        layers = [j for j in (0, 1) if f"ward_{j}/" in row.path]
        for key in (row.path, row.google, row.hdf5):
            assert catalogue.layer_number(key) == next(iter(layers), None)
    with pytest.raises(KeyError):
        elmo_names.find_names("elmo/forward_0/peephole")

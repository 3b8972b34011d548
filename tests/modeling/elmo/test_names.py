import json
import pathlib

import pytest

from modeling.checkpoints import names
from modeling.configs import config_files
from modeling.elmo import names as elmo_names

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "elmo"
CELL = "lm/RNN_1/rnn/{}lstm_cell/projection/kernel"


def test_names_are_those_of_the_original():
    """All of a checkpoint that the original wrote, and the names in its dump."""
    expected = json.loads((GOLDEN / "checkpoint_names.json").read_text())
    head = [names.head_rows("elmo")[path] for path in elmo_names.HEAD]
    network = names.network_rows(config_files.read(GOLDEN / "skip_options.json"))
    assert {row.google: row.hdf5 for row in [*network, *head]} == expected
    assert len(network) + len(head) == len(expected) == 31
    assert not any(names.is_head(row.path) for row in network)
    assert all(names.is_head(row.path) for row in head)
    for row in network:
        layers = [j for j in (0, 1) if f"ward_{j}/" in row.path]
        for key in (row.path, row.google, row.hdf5):
            assert names.layer_number(key) == next(iter(layers), None)
    with pytest.raises(KeyError):
        elmo_names.find_names("elmo/forward_0/peephole")


@pytest.mark.parametrize(
    ("stored", "key"),
    [
        (CELL.format(""), CELL.format("multi_rnn_cell/cell_0/")),
        ("RNN_0/RNN/LSTMCell/B", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"),
        ("lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/bias", None),
        ("RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B", None),
        ("bert/encoder/layer_0/rnn/lstm_cell/bias", None),
    ],
)
def test_single_lstms_get_the_number_of_stacked_ones(stored, key):
    assert elmo_names.number_cells(stored) == (key or stored)
    assert elmo_names.number_cells(f"{stored}/Adagrad") == f"{key or stored}/Adagrad"

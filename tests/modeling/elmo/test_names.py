import json
import pathlib

import pytest

from modeling.checkpoints import names
from modeling.configs import config_files
from modeling.elmo import names as elmo_names

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "elmo"


def test_names_are_those_of_the_original():
    """All of a checkpoint that the original wrote, and what it dumps them as."""
    expected = json.loads((GOLDEN / "checkpoint_names.json").read_text())
    config = config_files.read(GOLDEN / "skip_options.json")
    head = [names.heads("elmo")[path] for path in elmo_names.HEAD]
    rows = [*names.of_config(config), *head]
    assert {row.google: row.hdf5 for row in rows} == expected
    assert len(rows) == len(expected) == 31
    assert names.table([row.path for row in rows]) == rows
    assert [row.path for row in rows if names.is_head(row.path)] == [*elmo_names.HEAD]


@pytest.mark.parametrize(
    ("stored", "key"),
    [
        (
            "lm/RNN_1/rnn/lstm_cell/projection/kernel",
            "lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel",
        ),
        ("RNN_0/RNN/LSTMCell/B", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"),
        ("lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/bias", None),
        ("RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B", None),
        ("bert/encoder/layer_0/rnn/lstm_cell/bias", None),
    ],
)
def test_single_lstms_get_the_number_of_stacked_ones(stored, key):
    assert elmo_names.numbered(stored) == (key or stored)
    assert elmo_names.numbered(f"{stored}/Adagrad") == f"{key or stored}/Adagrad"


def test_layers_have_their_number_in_every_format():
    for row in names.of_config(config_files.read(GOLDEN / "skip_options.json")):
        is_first, is_second = (f"ward_{j}/" in row.path for j in (0, 1))
        wanted = {(True, False): 0, (False, True): 1}.get((is_first, is_second))
        for key in (row.path, row.google, row.hdf5):
            assert names.layer_of(key) == wanted


def test_unknown_variable_is_our_mistake():
    with pytest.raises(KeyError):
        elmo_names.in_files("elmo/forward_0/peephole")

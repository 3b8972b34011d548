"""Records of all networks agree with each other and with their own tables."""

import collections

import pytest

from contract import errors
from modeling.checkpoints import names
from modeling.networks import catalogue


@pytest.mark.parametrize("network", catalogue.NETWORKS, ids=lambda each: each.kind)
def test_a_record_knows_all_variables_of_its_network(network):
    paths = [row.path for row in network.marks]
    assert len({*paths}) == len(paths)
    assert not any(map(network.is_head, paths))
    assert all(path in paths for path, _ in network.sizes.values() if path)
    if network.inputs is None:
        with pytest.raises(errors.InputError, match=network.kind):
            network.depth(paths[0])
        return
    depths = collections.Counter(map(network.depth, paths))
    assert depths.keys() <= {0, 1, None} and depths[0] and depths[1]
    assert network.depth("classifier/logits/kernel") is None


@pytest.mark.parametrize("network", catalogue.NETWORKS, ids=lambda each: each.kind)
def test_a_network_is_known_by_the_names_in_its_files(network):
    for format in names.FORMATS:
        keys = {row.key(format) for row in network.marks} - {""}
        # Paths of relatives are those of BERT, and a .keras file has a config.
        if keys and format != "keras":
            assert catalogue.of_keys(keys, format) is network
    assert catalogue.of_keys({"model/other/kernel"}, "google") is None


def test_no_two_networks_have_a_name_in_common():
    networks = catalogue.NETWORKS
    for each in (
        [network.kind for network in networks],
        [name for network in networks for name in network.model_types],
        [name for network in networks for name in network.classes.values()],
        [key for network in networks for key in network.file_keys],
    ):
        assert len({*each}) == len(each)

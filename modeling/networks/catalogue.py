"""The list of networks, and which of them a config, a file or a name is of."""

import fnmatch
import os
from collections.abc import Collection, Mapping
from typing import Any

from contract import errors
from modeling.checkpoints import names
from modeling.networks import (
    albert,
    bert_family,
    distilbert,
    electra,
    mpnet,
    nomic_bert,
    roberta,
)
from modeling.networks.deberta import spec as deberta
from modeling.networks.elmo import spec as elmo
from modeling.networks.encoder_decoder import spec as encoder_decoder
from modeling.networks.gpt import spec as gpt
from modeling.networks.modernbert import spec as modernbert
from modeling.networks.spec import NetworkSpec

USUAL = bert_family.BERT  # of a config that does not name its network
NETWORKS: tuple[NetworkSpec, ...] = (
    USUAL,
    distilbert.NETWORK,
    roberta.NETWORK,
    roberta.DATA2VEC,
    mpnet.NETWORK,
    electra.NETWORK,
    albert.NETWORK,
    deberta.NETWORK,
    modernbert.NETWORK,
    nomic_bert.NETWORK,
    gpt.GPT,
    gpt.GPT_2,
    encoder_decoder.NETWORK,
    elmo.NETWORK,
)


def of(config: Any) -> NetworkSpec:
    """The record of the network of a config.

    Raises:
        InputError: it is of no network in the list.
    """
    for network in NETWORKS:
        # Not of a subclass, which may be of another network.
        if type(config) is network.config and network.kind == config.kind:
            return network
    raise errors.InputError(
        f"{type(config).__name__}: no network of this kind is known here; the networks "
        f"are {', '.join(network.kind for network in NETWORKS)}"
    )


def of_model_type(model_type: str) -> NetworkSpec | None:
    """The network with this name in transformers' config.json, or None."""
    known = (network for network in NETWORKS if model_type in network.model_types)
    return next(known, None)


def of_file(raw: Mapping[str, Any]) -> NetworkSpec:
    """The network of a config file, by its keys.

    Raises:
        InputError: its model type is that of no network in the list.
    """
    named = _named(raw)
    return next((n for n in NETWORKS if any(k in raw for k in n.file_keys)), named)


def _named(values: Mapping[str, Any]) -> NetworkSpec:
    """The network whose model type is among values; BERT where there is none."""
    if "model_type" not in values:
        return USUAL
    if network := of_model_type(values["model_type"]):
        return network
    known = [name for network in NETWORKS for name in network.model_types]
    raise errors.InputError(
        f"model_type is {values['model_type']!r}, and the networks that can be read "
        f"are those of {', '.join(known)}; give a model of one of these"
    )


def of_config_file(path: str) -> NetworkSpec:
    """The network whose releases give a config file this name; or BERT."""
    name = os.path.basename(path)
    own = (n for n in NETWORKS if fnmatch.fnmatchcase(name, n.config_file or "?"))
    return next(own, USUAL)


def of_values(values: Mapping[str, Any]) -> NetworkSpec:
    """As `of_file`, of a config of which dataclasses.asdict has made `values`."""
    own = (network for network in NETWORKS if network.field in values)
    return next(own, None) or _named(values)


def of_keys(keys: Collection[str], format: str) -> NetworkSpec | None:
    """The network with the most names of variables in a file; the first of several.

    None if the file has no name of any.
    """
    counts = [
        (sum(row.key(format) in keys for row in network.marks if row.key(format)))
        for network in NETWORKS
    ]
    return NETWORKS[counts.index(max(counts))] if any(counts) else None


def sizes(shapes: Mapping[str, tuple[int, ...]], format: str) -> dict[str, Any]:
    """{key of the config: value}, as far as the shapes of a file show it, and the kind.

    {} if they are of no network.
    """
    if (network := of_keys(shapes.keys(), format)) is None:
        return {}
    return {names.KIND: network.kind, **network.find_sizes(shapes, format)}


def modern_key(key: str) -> str:
    """The name in a record of a variable that earlier checkpoints call otherwise."""
    for network in NETWORKS:
        key = network.modern_key(key)
    return key


def layer_number(key: str) -> int | None:
    """The number of the layer that a key of any format belongs to, or None."""
    numbers = (network.layer_number(key) for network in NETWORKS)
    return next((number for number in numbers if number is not None), None)


def class_beginnings() -> set[str]:
    """How names of transformers' classes begin, in small letters."""
    return {name.lower() for network in NETWORKS for name in network.classes.values()}


def transformers_classes() -> frozenset[str]:
    """All classes of transformers whose heads are known."""
    return frozenset(name for network in NETWORKS for name in network.known_classes())

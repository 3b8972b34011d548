"""The networks and their classifiers, by the kind of a config; for models.py."""

from modeling import bert, bert_family, gpt, heads
from modeling.elmo import network as elmo
from modeling.encoder_decoder import network as encoder_decoder

KINDS = {
    "BERT": bert.BertEncoder,
    "DistilBERT": bert_family.DistilBertEncoder,
    "RoBERTa": bert_family.RobertaEncoder,
    "ELECTRA": bert_family.ElectraEncoder,
    "ALBERT": bert_family.AlbertEncoder,
    "GPT": gpt.GptDecoder,
    "GPT-2": gpt.GptDecoder,
    "ELMo": elmo.ElmoNetwork,
    "encoder-decoder": encoder_decoder.EncoderDecoder,
}


def make(config, recompute, dtype):
    """The network of a config, whose name is the beginning of its variables' paths."""
    kind = KINDS[config.kind]
    return kind(config, recompute, name=config.network, dtype=dtype)


def make_classifier(config, num_classes, sequences, is_plain):
    """The classifier of a network; a choice is made by the pooler, if there is one.

    `sequences` are those of models.BertClassifier, `is_plain` that of a HeadConfig.
    """
    is_choice = sequences == "compared"
    is_dense = is_plain and config.kind in bert_family.DENSE_CLASSIFIERS
    if is_dense and not (is_choice and config.has_pooler):
        return bert_family.DenseClassifierHead(
            config, num_classes, is_choice, name="classifier"
        )
    is_gpt = config.network == "gpt"
    return heads.ClassifierHead(num_classes, is_gpt, name="classifier")

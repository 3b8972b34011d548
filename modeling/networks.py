"""The networks and their classifiers, by the kind of a config; for models.py."""

from modeling import bert, bert_family, gpt, heads
from modeling.elmo import network as elmo
from modeling.encoder_decoder import network as encoder_decoder

KINDS = {
    "BERT": bert.BertEncoder,
    "DistilBERT": bert.BertEncoder,
    "RoBERTa": bert.BertEncoder,
    "ELECTRA": bert.BertEncoder,
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


def make_classifier(model):
    """The head of a models.BertClassifier; for a choice one by the pooler, if any."""
    config, num_classes = model.config, model.num_classes
    is_choice = model.sequences == "compared"
    is_dense = model.reading.is_plain and config.kind in bert_family.DENSE_CLASSIFIERS
    if is_dense and not (is_choice and config.has_pooler):
        return bert_family.DenseClassifierHead(
            config, num_classes, is_choice, name="classifier"
        )
    is_gpt = config.network == "gpt"
    return heads.ClassifierHead(num_classes, is_gpt, name="classifier")

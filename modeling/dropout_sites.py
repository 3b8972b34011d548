"""Where dropout is drawn: the number of each place in a network.

A mask follows from run, step and site (`kernels.dropout`), so places of one network
have different sites, which are below 1 << BITS:

    0                  embeddings
    from 1 on          three a block
    after all blocks   two a block that attends to a source; of a DeBERTa three a block
                       more, the table of relative positions and a convolution
    4079               before the dense layer of a classifier
    up to 4094         what a head reads, and between its LSTM layers
    4095               a head

An ELMo has two a layer, from 0 on. What runs twice in a step has another seed instead.
"""

BITS = 12
EMBEDDINGS = 0
HEAD = (1 << BITS) - 1
FEATURES = HEAD - 1
DENSE_CLASSIFIER = HEAD - 16
PER_BLOCK = 3  # attention, its output, the output
_PER_CROSS_ATTENTION = 2  # its softmax, its output
_PASS_BITS = 25  # of a step; the pass through shared weights counts above them
_OF_DECODER = 1 << 30  # of a run, whose encoder has the same sites


def first_of_block(index):
    """The first site of a block; the others follow."""
    return EMBEDDINGS + 1 + index * PER_BLOCK


def first_of_cross_attention(num_blocks, index):
    """The first site of a block's attention to a source; the other follows."""
    return first_of_block(num_blocks) + index * _PER_CROSS_ATTENTION


def of_lstm_input(layer, direction):
    """The site before a layer of ELMo, or after the last one; direction 0 or 1."""
    return 2 * layer + direction


def between_lstms(index):
    """The site before a layer, from 1 on, of the LSTMs of a head."""
    return FEATURES - index


def seed_of_pass(seed, number):
    """The dropout seed of another pass in the same step, or None for None."""
    return None if seed is None else (seed[0], seed[1] + (number << _PASS_BITS))


def seed_of_decoder(seed):
    """The dropout seed of the decoder beside an encoder, or None for None."""
    return None if seed is None else (seed[0] ^ _OF_DECODER, seed[1])

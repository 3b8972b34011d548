"""BERT in bert.py, its heads, models and losses; the other networks in networks/.

In: features as contract/features.py names them. Out: sequence_output, pooled_output and
the logits of a head; the weights and their files are checkpoints/'s.

Axes, as written in the right margin of every file here:

    B  batch                    K  size per head (D = N * K)
    S  query position           F  feed-forward size
    T  key position (T == S)    V  vocabulary
    D  hidden size              L  layers
    N  attention heads          P  predictions per sequence
                                C  classes
"""

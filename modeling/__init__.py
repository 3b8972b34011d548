"""The network: configuration, layers, heads, models, losses, checkpoints.

Axes, as written in the right margin of every file here:

    B  batch                    K  size per head (D = N * K)
    S  query position           F  feed-forward size
    T  key position (T == S)    V  vocabulary
    D  hidden size              L  layers
    N  attention heads          P  predictions per sequence
                                C  classes
"""

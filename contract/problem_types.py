"""What kinds of labels have in common; their names are those of label_map.json."""

# Those with one right class of several: a softmax.
ONE_OF_SEVERAL = ("classification", "choice")

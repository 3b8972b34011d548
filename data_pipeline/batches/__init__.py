"""Token ids to padded batches of features, in an order that a resumed run repeats."""

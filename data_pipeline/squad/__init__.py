"""Questions about contexts, SQuAD 1.1 and 2.0: windows, answers, scores, and graphs."""

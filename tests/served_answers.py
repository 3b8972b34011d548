"""Answers of an exported model, compared with the files of run_squad.py."""

import numpy as np
import pytest

from data_pipeline.squad import files

# Float32 rounding; two graphs multiply matrices of different padding.
ROUNDING = 1e-5


def ask(rows):
    """The questions of a file with these (question, context)."""
    count = len(rows)
    return files.Questions(
        path="questions.json",
        contexts=[context for _, context in rows],
        ids=[str(number) for number in range(count)],
        texts=[question for question, _ in rows],
        context_index=np.arange(count, dtype=np.int32),
        answer_texts=[[] for _ in rows],
        answer_starts=[[] for _ in rows],
        is_impossible=[False] * count,
        is_version_2=True,
    )


def assert_equal(served, answers, rows):
    """What is served says what the files say, and where the answer stands.

    Args:
        served: a dict for each row, as run_predictor.py gives them.
        answers: answer_choice.Answers of `ask(rows)`.
        rows: (question, context) each.
    """
    for key, (row, (_, context)) in enumerate(zip(served, rows, strict=True)):
        # SQuAD 1.1's word for no proposal.
        texts = [
            "" if entry["text"] == "empty" else entry["text"]
            for entry in answers.n_best[str(key)]
        ]
        prediction = answers.predictions[str(key)].replace("empty", "")
        assert " ".join(files.split_words(row["answer"])) == prediction
        if prediction:
            assert context[row["start"] : row["end"]] == row["answer"]
        else:
            assert (row["start"], row["end"]) == (-1, -1)
        entry = answers.n_best[str(key)][texts.index(prediction)]
        score = entry["start_logit"] + entry["end_logit"]
        assert row["score"] == pytest.approx(score, abs=ROUNDING)
        probability = entry["probability"]
        assert row["probability"] == pytest.approx(probability, abs=ROUNDING)
        if answers.null_score_diffs is None:
            assert "null_odds" not in row
        else:
            odds = answers.null_score_diffs[str(key)]
            assert row["null_odds"] == pytest.approx(odds, abs=ROUNDING)

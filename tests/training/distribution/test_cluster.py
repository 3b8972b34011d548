"""Tests of training/distribution/cluster.py: what TF_CONFIG may say, and what not."""

import json

import pytest

from training.distribution import cluster

HOSTS = ["host0:2222", "host1:2222", "host2:2222"]


def read(record):
    text = record if isinstance(record, str) else json.dumps(record)
    return cluster.read({"TF_CONFIG": text})


def named(kind, index, **hosts):
    return {"cluster": hosts, "task": {"type": kind, "index": index}}


def test_processes_are_numbered_as_they_are_listed_the_chief_first():
    for index in (0, 2):
        record = named("worker", index, worker=HOSTS)
        assert read(record) == cluster.Cluster(tuple(HOSTS), index)
    for kind, index, task in (("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)):
        record = named(kind, index, worker=HOSTS[:2], chief=HOSTS[2:])
        assert read(record) == cluster.Cluster((HOSTS[2], *HOSTS[:2]), task)


def test_an_address_twice_is_refused():
    record = named("worker", 0, worker=[*HOSTS[:2], HOSTS[0]])
    with pytest.raises(ValueError, match="TF_CONFIG has host0:2222 twice; give each"):
        read(record)


def test_one_process_is_no_cluster():
    assert cluster.read({}) is None
    for record in (
        " \n",
        named("worker", 0, worker=HOSTS[:1]),
        named("chief", 0, chief=HOSTS[:1], worker=[]),
    ):
        assert read(record) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("worker0:2222", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "TypeError: list indices must be integers or slices, not str"),
        ('{"task": {"type": "worker", "index": 0}}', "KeyError: 'cluster'"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": "x"}}',
            "ValueError: invalid literal for int() with base 10: 'x'",
        ),
        (
            '{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}',
            "TypeError: addresses must be a list",
        ),
    ],
)
def test_what_cannot_be_understood_is_shown_beside_an_example(text, reason):
    with pytest.raises(ValueError) as caught:
        read(text)
    assert str(caught.value) == (
        f"TF_CONFIG={text!r} cannot be understood ({reason}); it should look like "
        '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": '
        '"worker", "index": 0}}'
    )
    assert read(str(caught.value).split("look like ")[1]).task == 0  # it does


def test_other_processes_and_tasks_are_refused():
    message = (
        "^TF_CONFIG has master, ps; a run has only chief and worker, all of which "
        "compute: no parameter servers$"
    )
    with pytest.raises(ValueError, match=message):
        read(named("ps", 0, worker=HOSTS, master=[], ps=[]))
    for kind, index in (("worker", 2), ("worker", -1), ("chief", 1)):
        message = (
            f"^TF_CONFIG: task {kind} {index} is none of the cluster's: chief 0, "
            "worker 0, worker 1$"
        )
        with pytest.raises(ValueError, match=message):
            read(named(kind, index, worker=HOSTS[:2], chief=HOSTS[2:]))

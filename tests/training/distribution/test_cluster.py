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


@pytest.mark.parametrize("index", [0, 2])
def test_workers_are_numbered_as_they_are_listed(index):
    found = read(named("worker", index, worker=HOSTS))
    assert found == cluster.Cluster(tuple(HOSTS), index)


@pytest.mark.parametrize(
    ("kind", "index", "task"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)]
)
def test_chief_is_the_first_wherever_it_is_listed(kind, index, task):
    record = named(kind, index, worker=HOSTS[:2], chief=HOSTS[2:])
    assert read(record) == cluster.Cluster((HOSTS[2], *HOSTS[:2]), task)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TF_CONFIG": ""},
        {"TF_CONFIG": " \n"},
        {"TF_CONFIG": json.dumps(named("worker", 0, worker=HOSTS[:1]))},
        {"TF_CONFIG": json.dumps(named("chief", 0, chief=HOSTS[:1], worker=[]))},
    ],
    ids=str,
)
def test_one_process_is_no_cluster(environment):
    assert cluster.read(environment) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("worker0:2222", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "TypeError: list indices must be integers or slices, not str"),
        ('{"task": {"type": "worker", "index": 0}}', "KeyError: 'cluster'"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "KeyError: 'task'"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"index": 0}}', "KeyError: 'type'"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}',
            "KeyError: 'index'",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": "x"}}',
            "ValueError: invalid literal for int() with base 10: 'x'",
        ),
        (
            '{"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}}',
            "TypeError: addresses must be a list",
        ),
        (
            '{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}',
            "AttributeError: 'list' object has no attribute 'items'",
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


@pytest.mark.parametrize(
    ("record", "strange"),
    [
        (named("worker", 0, worker=HOSTS[:2], ps=HOSTS[2:]), "ps"),
        (named("evaluator", 0, worker=HOSTS), "evaluator"),
        (named("ps", 0, worker=HOSTS, master=[], ps=[]), "master, ps"),
    ],
)
def test_processes_that_do_something_else_are_refused(record, strange):
    with pytest.raises(ValueError) as caught:
        read(record)
    assert str(caught.value) == (
        f"TF_CONFIG has {strange}; a run has only chief and worker, all of which "
        "compute: no parameter servers"
    )


@pytest.mark.parametrize(
    ("kind", "index"), [("worker", 2), ("worker", -1), ("chief", 1)]
)
def test_task_that_is_not_in_the_cluster_is_refused(kind, index):
    with pytest.raises(ValueError) as caught:
        read(named(kind, index, worker=HOSTS[:2], chief=HOSTS[2:]))
    assert str(caught.value) == (
        f"TF_CONFIG: task {kind} {index} is none of the cluster's: chief 0, worker 0, "
        "worker 1"
    )

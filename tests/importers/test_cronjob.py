"""CronJobs of Kubernetes: what is carried over, what is noted, and where an error is."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.importers.cronjob_texts import FULL, cronjob, read
from tickwork.core.recurrence.cron import Cron
from tickwork.core.recurrence.interval import Every
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.errors import InvalidInput
from tickwork.importers.cronjob import read_cronjobs
from tickwork.importers.result import ImportResult


def only(thing: str | dict[str, Any]) -> ScheduleSpec:
    imported = read(thing)
    assert imported.errors == []
    (spec,) = imported.specs
    return spec


def test_all_that_has_a_counterpart_is_carried_over() -> None:
    spec = only(FULL)
    assert (spec.name, spec.target, spec.paused) == ("hello", "shell", True)
    assert spec.rule == Cron(expression="*/5 * * * *", tz="Europe/Berlin")
    assert (spec.policies.overlap, spec.policies.catchup) == ("skip", "latest")
    assert spec.policies.deadline == timedelta(seconds=200)
    assert (spec.options.retries, spec.options.backoff) == (2, timedelta(seconds=10))
    assert spec.options.timeout == timedelta(seconds=600)
    assert spec.options.labels == ("image:busybox:1.28", "namespace:shop")
    assert json.loads(spec.args) == {
        "command": ["/bin/sh", "-c", "echo Hello world $(UNKNOWN) $(WHO)"],
        "env": {"WHO": "world", "GREETING": "Hello world", "EMPTY": ""},
        "cwd": "/srv",
    }


def test_all_that_has_none_is_noted_with_its_place() -> None:
    pod = "spec.jobTemplate.spec.template.spec"
    notes = {note.where.removeprefix("f.yaml:"): note.text for note in read(FULL).notes}
    assert {where.partition(", ")[2] for where in notes} == {
        "spec.successfulJobsHistoryLimit",
        f"{pod}.serviceAccountName",
        f"{pod}.volumes",
        f"{pod}.initContainers",
        f"{pod}.containers[0].env[2].valueFrom",
        f"{pod}.containers[0].envFrom",
        f"{pod}.containers[0].volumeMounts",
        f"{pod}.containers[0].resources",
        f"{pod}.containers[1]",
    }
    assert notes["13: document 1, spec.successfulJobsHistoryLimit"] == (
        "not carried over: jobs are kept by age, 7 days by default, not by number."
    )
    assert notes[f"33: document 1, {pod}.containers[0].env[2].valueFrom"] == (
        "PASSWORD is not carried over: put this variable into the worker's environment."
    )


def test_what_is_not_said_is_as_kubernetes_has_it() -> None:
    spec = only(cronjob())
    assert spec.rule == Cron(expression="0 1 * * *", tz="UTC")
    assert (spec.policies.overlap, spec.policies.catchup, spec.policies.deadline) == ("allow", "latest", None)
    assert (spec.options.retries, spec.options.timeout, spec.paused) == (6, None, False)


@pytest.mark.parametrize(
    ("policy", "overlap"), [("Allow", "allow"), ("Forbid", "skip"), ("Replace", "cancel"), (None, "allow")]
)
def test_concurrency_is_overlap(policy: str | None, overlap: str) -> None:
    assert only(cronjob(concurrencyPolicy=policy)).policies.overlap == overlap


@pytest.mark.parametrize(
    ("schedule", "rule"),
    [
        ("@hourly", Cron(expression="@hourly")),
        ("0 1 ? * MON", Cron(expression="0 1 * * MON")),
        ("@every 1h30m", Every(step=timedelta(minutes=90))),
        ("CRON_TZ=Asia/Tokyo 0 1 * * *", Cron(expression="0 1 * * *", tz="Asia/Tokyo")),
        ("TZ=Asia/Tokyo 0 1 * * *", Cron(expression="0 1 * * *", tz="Asia/Tokyo")),
    ],
)
def test_schedules_as_kubernetes_reads_them(schedule: str, rule: object) -> None:
    assert only(cronjob(schedule=schedule)).rule == rule


def test_lists_and_several_documents() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [cronjob("a"), {"kind": "Service"}, cronjob("b")]}
    imported = read(listed, "", {"kind": "CronJobList", "items": [cronjob("c")]}, "# nothing", cronjob("d"))
    assert imported.errors == []
    assert [spec.name for spec in imported.specs] == ["a", "b", "c", "d"]
    assert [note.text for note in imported.notes] == ["Service is not a CronJob; it was left out."]
    assert imported.notes[0].where.endswith(": document 1, items[1].kind")


def test_one_name_in_two_namespaces() -> None:
    first, second = cronjob("job"), cronjob("job")
    first["metadata"]["namespace"], second["metadata"]["namespace"] = "red", "blue"
    names = [spec.name for spec in read(first, second).specs]
    assert names[0] == "job"
    assert names[1].startswith("job-")


@pytest.mark.parametrize(
    ("thing", "where", "text"),
    [
        (cronjob(schedule="0 0 31 2 *"), "spec.schedule", "cron '0 0 31 2 *' is never due"),
        (cronjob(schedule=5), "spec.schedule", "it must be a text, not 5."),
        (cronjob(schedule=None), "spec.schedule", "it is missing; it must be a text."),
        (cronjob(timeZone="Mars/Olympus"), "spec.timeZone", "tz"),
        (cronjob(concurrencyPolicy="Never"), "spec.concurrencyPolicy", "it must be one of Allow, Forbid, Replace, not"),
        (cronjob(suspend="yes"), "spec.suspend", "it must be true or false, not 'yes'."),
        (cronjob(startingDeadlineSeconds=-1), "spec.startingDeadlineSeconds", "it must be a whole number, 0 or more"),
        (cronjob(job={"backoffLimit": True}), "spec.jobTemplate.spec.backoffLimit", "it must be a whole number"),
        (cronjob(job={"activeDeadlineSeconds": 0}), "spec", "timeout is 0"),
        (cronjob(jobTemplate=[]), "spec.jobTemplate", "it must have fields, not []."),
        (cronjob(jobTemplate=None), "spec.jobTemplate.spec.template.spec.containers", "there must be a container"),
        ({"kind": "CronJob", "metadata": {}, "spec": {}}, "spec.jobTemplate.spec.template.spec.containers", "missing"),
        ("- a list", "all of it", "it must have fields, not ['a list']."),
    ],
)
def test_an_error_names_document_and_field_and_the_others_are_kept(
    thing: str | dict[str, Any], where: str, text: str
) -> None:
    imported = read(cronjob("before"), thing, cronjob("after"))
    assert [spec.name for spec in imported.specs] == ["before", "after"]
    (error,) = imported.errors
    assert error.where.endswith(f": document 2, {where}")
    assert text in error.text
    assert imported.notes == []


def test_a_command_that_only_the_image_knows_is_refused() -> None:
    job = cronjob()
    container = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container.pop("command")
    container["args"] = ["--now"]
    (error,) = read(job).errors
    assert error.where.endswith("containers[0].command")
    assert error.text == "it is missing; what runs then is known to the image alone. Write it out here."


def test_a_file_that_is_not_yaml_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^f\.yaml:2: this is not YAML: "):
        read("spec:\n  schedule: [1, }")
    with pytest.raises(InvalidInput, match=r"^f\.yaml: it is not UTF-8 at byte 3\."):
        read_cronjobs(b"a: \xff"[1:], file="f.yaml", imported=ImportResult())

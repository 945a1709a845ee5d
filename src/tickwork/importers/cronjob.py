"""Import Kubernetes CronJobs as schedules; the task `shell` runs the command of their container.

Images, volumes, secrets and other containers have no equivalent. Every field that is not imported is reported with its
path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import every
from tickwork.core.text.yaml_loader import read_yaml
from tickwork.declare.document_nodes import Node, UnusableNode
from tickwork.errors import InvalidInput
from tickwork.importers.result import ImportResult, check_size

_KIND = "CronJob"
_OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel"}
_BACKOFF_LIMIT, _BACKOFF = 6, "10s"  # the defaults of Kubernetes
_LABELS_LIMIT = 200
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:(\$)|\(([A-Za-z_][\w.-]*)\))")

# Fields that do not affect when or how a command runs. All other fields that are not imported are reported.
_OF_NO_INTEREST = {"metadata", "name", "restartPolicy", "imagePullPolicy", "terminationMessagePath"}
_OF_NO_INTEREST |= {"terminationMessagePolicy", "dnsPolicy", "schedulerName", "completionMode"}
_OF_SPEC = {"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "suspend", "jobTemplate"}
_OF_JOB = {"backoffLimit", "activeDeadlineSeconds", "template"}
_OF_POD = {"containers"}
_OF_CONTAINER = {"command", "args", "env", "image", "workingDir"}
_NOTES = {
    "successfulJobsHistoryLimit": "jobs are kept by age, 7 days by default, not by number.",
    "failedJobsHistoryLimit": "failed jobs are kept by age, 30 days by default, not by number.",
    "ttlSecondsAfterFinished": "jobs are kept by age, the same for all.",
    "initContainers": "only the command of the first container is run.",
    "volumeMounts": "the command sees the files of the machine that its worker runs on.",
    "envFrom": "put these variables into the worker's environment.",
    "valueFrom": "put this variable into the worker's environment.",
    "resources": "see --memory-mb of tickwork worker.",
}


def read_cronjobs(data: bytes, *, file: str, imported: ImportResult) -> None:
    """Add the CronJobs of a YAML file, also those in List objects, to `imported`.

    Raises InvalidInput if the file is too large or not YAML.
    """
    check_size(data, file)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: it is not UTF-8 at byte {error.start + 1}.") from None
    for number, document in enumerate(read_yaml(text, file=file), start=1):
        for thing in _things(Node(document, (), document.value)):
            if thing.is_there:
                _CronJobReader(file, number, imported).read(thing)


def _things(found: Node) -> Iterator[Node]:
    """Yield the object of a document, or the objects of a List object, recursively."""
    listed = isinstance(found.value, dict) and str(found.value.get("kind", "")).endswith("List")
    if not listed or not isinstance(found["items"].value, list):
        yield found
        return
    for item in found["items"].items():
        yield from _things(item)


class _CronJobReader:
    """Reads one Kubernetes object."""

    def __init__(self, file: str, number: int, imported: ImportResult) -> None:
        self._file = file
        self._number = number
        self._imported = imported
        self._notes: list[tuple[Node, str]] = []

    def read(self, thing: Node) -> None:
        """Add a CronJob; report objects of other kinds and errors."""
        try:
            kind = thing["kind"].text("")
            if kind == _KIND:
                self._add(thing)
            else:
                self._note(thing["kind"], f"{kind or 'an object without a kind'} is not a {_KIND}; it was left out.")
        except UnusableNode as error:
            self._imported.error(self._where(error.field), str(error))
            return
        except InvalidInput as error:
            self._imported.error(self._where(thing["spec"]), str(error))
            return
        for field, text in self._notes:
            self._imported.note(self._where(field), text)

    def _where(self, field: Node) -> str:
        return f"{self._file}:{field.line}: document {self._number}, {field.name or 'all of it'}"

    def _note(self, field: Node, text: str) -> None:
        self._notes.append((field, text))

    def _add(self, thing: Node) -> None:
        """Add the schedule of a CronJob, and report the fields that are not imported."""
        spec, metadata = thing["spec"], thing["metadata"]
        job = spec["jobTemplate"]["spec"]
        pod = job["template"]["spec"]
        container = self._container(pod)
        name, namespace = metadata["name"].text(), metadata["namespace"].text("")
        labels = {"image": container["image"].text(""), "namespace": namespace}
        self._imported.add(
            name,
            f"{namespace}/{name}",
            _rule(spec),
            self._arguments(container),
            labels=[f"{key}:{value}"[:_LABELS_LIMIT] for key, value in labels.items() if value],
            **_policies(spec),
            **_options(job),
        )
        for place, carried in ((spec, _OF_SPEC), (job, _OF_JOB), (pod, _OF_POD), (container, _OF_CONTAINER)):
            self._note_others(place, carried)

    def _note_others(self, place: Node, carried: set[str]) -> None:
        for key in place.names():
            if key not in carried and key not in _OF_NO_INTEREST:
                self._note(place[key], f"not carried over{_reason(key)}")

    def _container(self, pod: Node) -> Node:
        containers = list(pod["containers"].items())
        if not containers:
            raise UnusableNode(pod["containers"], "it is missing; there must be a container with a command.")
        for other in containers[1:]:
            self._note(other, "not carried over: only the command of the first container is run.")
        return containers[0]

    def _arguments(self, container: Node) -> dict[str, Any]:
        """Return the arguments of the task `shell` for a container. Raises UnusableNode."""
        command = [item.text() for item in container["command"].items()]
        if not command:
            raise UnusableNode(
                container["command"], "it is missing; what runs then is known to the image alone. Write it out here."
            )
        env = self._env(container["env"])
        words = command + [item.text() for item in container["args"].items()]
        given = {
            "command": [_expanded(word, env) for word in words],
            "env": env,
            "cwd": container["workingDir"].text(""),
        }
        return {name: value for name, value in given.items() if value}

    def _env(self, variables: Node) -> dict[str, str]:
        env: dict[str, str] = {}
        for one in variables.items():
            if one["valueFrom"].is_there:
                self._note(one["valueFrom"], f"{one['name'].text()} is not carried over{_reason('valueFrom')}")
            else:
                env[one["name"].text()] = _expanded(one["value"].text(""), env)
        return env


def _reason(key: str) -> str:
    return f": {_NOTES[key]}" if key in _NOTES else "."


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Expand $(NAME) as Kubernetes does: unknown variables are left unchanged, and $$ is a dollar sign."""
    return _REFERENCE.sub(lambda found: "$" if found[1] else env.get(found[2], found[0]), text)


def _rule(spec: Node) -> RuleValue:
    """Return the rule of a CronJob; the time zone may be a prefix of the schedule. Raises UnusableNode."""
    field = spec["schedule"]
    text, zone = field.text().strip(), spec["timeZone"]
    tz = zone.text("UTC")
    if prefixed := _ZONE.fullmatch(text):
        tz, text = prefixed[1], prefixed[2].strip()
    try:
        if text.startswith("@every "):
            return every(text.removeprefix("@every ").strip())
        return cron(text.replace("?", "*"), tz=tz)
    except InvalidInput as error:
        raise UnusableNode(zone if zone.is_there and str(error).startswith("tz") else field, str(error)) from None


def _policies(spec: Node) -> dict[str, Any]:
    """Return the overlap, catch-up, deadline and pause options of a CronJob. Raises UnusableNode."""
    policy = spec["concurrencyPolicy"]
    if policy.text("Allow") not in _OVERLAPS:
        raise policy.misfit(f"must be one of {', '.join(_OVERLAPS)}")
    deadline = spec["startingDeadlineSeconds"]
    return {
        "overlap": _OVERLAPS[policy.text("Allow")],
        "catchup": "latest",
        "deadline": f"{deadline.number()}s" if deadline.is_there else None,
        "paused": spec["suspend"].flag(False),
    }


def _options(job: Node) -> dict[str, Any]:
    limit = job["activeDeadlineSeconds"]
    return {
        "retries": job["backoffLimit"].number(_BACKOFF_LIMIT),
        "backoff": _BACKOFF,
        "timeout": f"{limit.number()}s" if limit.is_there else None,
    }

"""The job that delivers a message to a channel. It has retries, and becomes a dead letter if they fail."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tickwork.core.arguments.stored_signature import StoredSignature
from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy
from tickwork.core.notify.channels import Channel, Message, job_of
from tickwork.core.notify.matching import OWN
from tickwork.core.retry import RetryPolicy

DELIVERY = Policy(retry=RetryPolicy(retries=8, base=timedelta(seconds=5)))


def delivery(id: JobId, channel: Channel, message: Message, creator: str | None) -> NewJob:
    """Return a job of the built-in task that sends the message to the channel."""
    task, arguments = job_of(channel, message)
    args = StoredSignature(None).encode((), arguments, task)
    job = NewJob(id, task, args, queue=channel.queue, policy=DELIVERY, creator=creator)
    return msgspec.structs.replace(job, collection=OWN, labels=(f"channel:{channel.name}",))

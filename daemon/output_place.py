"""Where a source's outputs go, and what they may be read by."""

from __future__ import annotations

import grp
import os
from contextlib import AbstractContextManager

from daemon.errors import DeliveryError
from daemon.job import Job
from daemon.output_files import Folder, Rights, open_folder, plain_errors
from daemon.output_names import base_name, folders_below, output_stem
from daemon.settings import Inbox


def rights_of(inbox: Inbox, umask: int) -> Rights:
    """The mode and group that an inbox's outputs get.

    Raises:
        DeliveryError: There is no such group.
    """
    mode = inbox.file_mode if inbox.file_mode is not None else 0o666 & ~umask
    if inbox.group is None:
        return Rights(mode)
    try:
        return Rights(mode, grp.getgrnam(inbox.group).gr_gid)
    except KeyError as error:
        raise DeliveryError(
            f"The group {inbox.group!r} of the inbox {inbox.path} does not exist on this machine. "
            "Make it (groupadd) or change `group` in the settings."
        ) from error


def target_folder(job: Job, inbox: Inbox, *, make: Rights | None) -> AbstractContextManager[Folder]:
    """The source's own folder, or the same below the outbox."""
    parts = folders_below(job.path, inbox.path)
    if inbox.outbox is None:
        return open_folder(inbox.path, parts)  # a folder that was taken away stays away
    return open_folder(inbox.outbox, parts, make=make)


def stem_in(job: Job, folder: Folder) -> bytes:
    """The stem of a job's outputs, as long as the folder's file system takes it."""
    with plain_errors("look into", folder.path):
        name_max = os.fpathconf(folder.fd, "PC_NAME_MAX")
    return output_stem(base_name(job.path), min(name_max, 255))

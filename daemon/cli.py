"""The commands: arguments → settings → one call → exit code."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from daemon import model_commands
from daemon.doctor import examine_machine
from daemon.dropin import systemd_dropin
from daemon.errors import ConfigError, ScanmdError
from daemon.job import Job, JobState
from daemon.ledger import Ledger
from daemon.once import read_now
from daemon.output_files import shown
from daemon.purge import WorkDir
from daemon.service import STATUS_NOTE, Service
from daemon.settings import (
    LoadedSettings,
    Settings,
    check_folders,
    load_settings,
    shown_settings,
)

_SHOWN_JOBS = 10
app = typer.Typer(
    name="scanmd",
    help="Turns scans dropped into a folder into Markdown, on this machine only.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="The settings: check them, show them.", no_args_is_help=True)
model_app = typer.Typer(help="The weights of the GPU engine.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(model_app, name="model")

Config = Annotated[
    Optional[Path],  # noqa: UP045 - typer
    typer.Option("--config", "-c", help="The settings file.", dir_okay=False),
]


def main() -> None:
    """Run a command; a person sees one sentence, never a traceback."""
    try:
        app()
    except ScanmdError as error:
        Console(stderr=True).print(str(error), markup=False, style="red", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.command()
def run(
    config: Config = None,
    inbox: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="Watch this folder instead of those in the settings."),
    ] = None,
    outbox: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="With --inbox: where the results go."),
    ] = None,
    engine: Annotated[Optional[str], typer.Option(help="auto, rapid or deepseek.")] = None,  # noqa: UP045
    log_format: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="auto, human or json."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left to read.")] = False,
) -> None:
    """Watch the inboxes and read what arrives, until stopped."""
    settings = _load(config, inbox, outbox, engine=engine, log_format=log_format).settings
    for problem in check_folders(settings):
        if problem.fatal:
            raise ConfigError(str(problem))
    Service(settings, once=once).run()


@app.command()
def once(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders to read now.")],
    config: Config = None,
    outbox: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Where the results go; default: beside each file."),
    ] = None,
    engine: Annotated[Optional[str], typer.Option(help="auto, rapid or deepseek.")] = None,  # noqa: UP045
) -> None:
    """Read files or folders now; the exit code says whether any failed."""
    failures = read_now(
        paths,
        outbox,
        lambda inboxes: _load_inboxes(config, inboxes, engine=engine).settings,
    )
    for path, reason in failures:
        print(f"{shown(path)}: {reason}", file=sys.stderr)
    raise typer.Exit(1 if failures else 0)


@app.command()
def status(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show the queue, the current page, the last documents and the failures."""
    with _ledger(config, read_only=True) as ledger:
        note = json.loads(ledger.note(STATUS_NOTE) or "{}")
        running = bool(note) and _is_running(note)
        counts = {str(state): number for state, number in ledger.counts().items()}
        recent, failures = ledger.recent(_SHOWN_JOBS), ledger.failures(_SHOWN_JOBS)
    if as_json:
        report = {
            "running": running,
            **note,
            "counts": counts,
            "recent": [_plain(job) for job in recent],
            "failures": [_plain(job) for job in failures],
        }
        print(json.dumps(report, indent=2))
        return
    print(f"scanmd: {note.get('text', 'running') if running else 'not running'}")
    if note:
        print(f"engine: {note['engine']} ({note['why']})")
        for inbox in note["inboxes"]:
            state = f"PAUSED: {inbox['paused']}" if inbox["paused"] else inbox["mode"]
            reason = "" if inbox["paused"] else f" ({inbox['reason']})"
            print(f"inbox:  {shown(os.fsencode(inbox['path']))}: {state}{reason}")
    print("jobs:   " + ", ".join(f"{number} {state}" for state, number in counts.items() if number))
    _print_jobs("Last documents", recent)
    _print_jobs("Failures (scanmd retry ID)", failures)


@app.command()
def retry(
    ids: Annotated[Optional[list[int]], typer.Argument(help="Job numbers.")] = None,  # noqa: UP045
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    config: Config = None,
) -> None:
    """Read documents again that failed; good pages are not read again."""
    if bool(ids) == failed:
        raise typer.BadParameter("name the jobs, or say --failed")
    with _ledger(config, read_only=False) as ledger:
        queued = ledger.retry(None if failed else ids)
    print(f"{queued} document{'s' if queued != 1 else ''} queued again.")
    raise typer.Exit(0 if queued or failed else 1)


@app.command()
def doctor(config: Config = None) -> None:
    """Check what reading needs; each line is ok, or says what to do."""
    settings = _load(config).settings
    bad = 0
    for finding in examine_machine(settings):
        print(f"{'ok     ' if finding.ok else 'PROBLEM'} {finding.what}: {finding.text}")
        bad += not finding.ok
    raise typer.Exit(1 if bad else 0)


@app.command()
def purge(config: Config = None) -> None:
    """Delete old work files now; those of live jobs stay."""
    settings = _load(config).settings
    work = WorkDir(settings.state_dir / "work")
    purged = work.purge(settings.work_max_age_days * 86400, time.time())
    print(f"{purged.entries} entries deleted, {purged.size_bytes / 1e6:.1f} MB.")


@app.command("systemd-dropin")
def dropin(config: Config = None) -> None:
    """Print the drop-in that opens the configured folders to the service."""
    print(systemd_dropin(_load(config).settings), end="")


@config_app.command("check")
def config_check(config: Config = None) -> None:
    """Check the settings and the folders they name."""
    loaded = _load(config)
    problems = check_folders(loaded.settings)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        raise typer.Exit(ConfigError.exit_code)
    print(f"{loaded.config or 'The settings'}: ok, {len(loaded.settings.inboxes)} inboxes.")


@config_app.command("show")
def config_show(config: Config = None) -> None:
    """Show every setting and where its value comes from."""
    table = Table(box=None, pad_edge=False)
    for title in ("setting", "value", "from"):
        table.add_column(title, overflow="fold")
    for row in shown_settings(_load(config)):
        table.add_row(row.key, row.value, row.origin)
    Console(markup=False, highlight=False).print(table)


@model_app.command("fetch")
def model_fetch(config: Config = None, revision: Optional[str] = None) -> None:  # noqa: UP045
    """Download the published weights (the only command that uses the network)."""
    folder = model_commands.model_folder(_load(config).settings.cache_dir)
    record = model_commands.fetch(folder, revision=revision)
    print(f"{record.repository} at {record.revision} is in {folder}.")


@model_app.command("list")
def model_list(config: Config = None) -> None:
    """List the weights on this machine."""
    for model in model_commands.list_models(_load(config).settings.cache_dir):
        print(f"{model.folder}: {model.gb:.1f} GB, {model.problem or 'ok'}")


@model_app.command("verify")
def model_verify(config: Config = None, folder: Optional[Path] = None) -> None:  # noqa: UP045
    """Compare the weights with their checksums."""
    folder = folder or model_commands.model_folder(_load(config).settings.cache_dir)
    model_commands.verify(folder)
    print(f"{folder}: ok")


@model_app.command("remove")
def model_remove(config: Config = None) -> None:
    """Delete the fetched weights."""
    freed = model_commands.remove(model_commands.model_folder(_load(config).settings.cache_dir))
    print(f"{freed / 1e9:.1f} GB freed.")


def _load(
    config: Path | None,
    inboxes: list[Path] | None = None,
    outbox: Path | None = None,
    **overrides: Any,  # noqa: ANN401 - any setting
) -> LoadedSettings:
    if outbox is not None and not inboxes:
        raise typer.BadParameter("--outbox goes with --inbox")
    folders = [
        {"path": str(path.absolute()), **({"outbox": str(outbox.absolute())} if outbox else {})}
        for path in inboxes or ()
    ]
    return _load_inboxes(config, folders, **overrides)


def _load_inboxes(
    config: Path | None,
    inboxes: list[dict[str, Any]],
    **overrides: Any,  # noqa: ANN401 - any setting
) -> LoadedSettings:
    given = {key: value for key, value in overrides.items() if value is not None}
    if inboxes:
        given["inboxes"] = inboxes
    return load_settings(config, given)


@contextmanager
def _ledger(config: Path | None, *, read_only: bool) -> Iterator[Ledger]:
    settings: Settings = _load(config).settings
    ledger = Ledger.open(settings.state_dir / "ledger.sqlite3", read_only=read_only)
    try:
        yield ledger
    finally:
        ledger.close()


def _is_running(note: dict[str, Any]) -> bool:
    return time.time() - note["updated_s"] < 30 and Path(f"/proc/{note['pid']}").exists()


def _plain(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "inbox": job.inbox,
        "path": os.fsdecode(job.path).encode("utf-8", "backslashreplace").decode(),
        "state": str(job.state),
        "pages": job.page_count,
        "seconds": job.seconds,
        "output": None if job.output is None else shown(job.output),
        "reason": job.reason,
        "ended": job.updated_s,
    }


def _print_jobs(title: str, jobs: list[Job]) -> None:
    if not jobs:
        return
    print(f"\n{title}:")
    for job in jobs:
        when = datetime.fromtimestamp(job.updated_s).astimezone().strftime("%Y-%m-%d %H:%M")
        pages = f", pages: {job.page_count}" if job.page_count else ""
        print(f"  {job.id:>5}  {when}  {job.state:8} {shown(job.path)}{pages}")
        if job.reason and job.state is not JobState.DONE:
            print(f"         {job.reason}")

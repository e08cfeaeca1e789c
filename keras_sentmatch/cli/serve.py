"""`serve`: predictions over HTTP, with a page."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.runs import Run, Scoring
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
BUILT_IN = "embedded"  # the only data that is shown unasked: it is nobody's
EXAMPLES = 5
LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclass
class Limited:
    """The limits of a request."""

    max_body: Annotated[int, typer.Option(help="Maximum size of a request body, in bytes.")] = (
        1 << 20
    )
    max_pairs: Annotated[
        int, typer.Option(help="Maximum number of pairs or candidates per request.")
    ] = 1024
    max_characters: Annotated[
        int, typer.Option(help="Maximum number of characters per sentence.")
    ] = 2000
    max_waiting: Annotated[
        int, typer.Option(help="Maximum number of waiting pairs. More are refused.")
    ] = 16_384
    read_timeout: Annotated[float, typer.Option(help="Seconds for a request to arrive.")] = 10.0
    answer_timeout: Annotated[float, typer.Option(help="Seconds for its answer.")] = 30.0

    def check(self) -> None:
        """Refuse values that are not limits."""
        options.check_at_least(
            1, max_body=self.max_body, max_pairs=self.max_pairs, max_characters=self.max_characters
        )
        options.check_at_least(self.max_pairs, max_waiting=self.max_waiting)
        for name in ("read_timeout", "answer_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                option = name.replace("_", "-")
                raise InputError(f"--{option} is {getattr(self, name)}. Expected seconds above 0.")


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Run folders, the default first; NAME=FOLDER gives one another name than its "
            "folder's.",
        ),
    ],
    scoring: Scoring,
    limited: Limited,
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    api_key_file: Annotated[
        Path | None,
        typer.Option(help="File of keys, one per line. Every request but /health needs one."),
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(
            help="Example pairs of the page: a name or path, as for `train --data`. Default: the "
            "embedded pairs, if a run was trained on them."
        ),
    ] = None,
    batch_wait: Annotated[
        float,
        typer.Option(help="Milliseconds that a request waits for others, to share a batch."),
    ] = 3.0,
) -> None:
    """Serve runs over HTTP, with a page to try them."""
    limited.check()
    options.check_at_least(1, batch_size=scoring.batch_size)
    if not 0 <= batch_wait <= 1000:
        raise InputError(f"--batch-wait is {batch_wait}. Expected 0 to 1000 milliseconds.")
    folders = named_folders(runs)
    keys = read_keys(api_key_file) if api_key_file else []
    try:
        from keras_sentmatch.service.server import listen, make_server
    except ModuleNotFoundError as error:
        raise InputError(
            f'serve needs {error.name}. Run pip install "keras-sentmatch[serve]".'
        ) from error
    listening = listen(host, port)  # before what takes longer
    if host not in LOCAL and not keys:
        log.warning(
            "anyone who can reach %s can send requests; --api-key-file requires a key", host
        )
    scoring.use_backend()
    from keras_sentmatch.inference.matcher import run_folder
    from keras_sentmatch.service.app import make_app
    from keras_sentmatch.service.batching import ServedRun
    from keras_sentmatch.service.gate import Limits, Metrics

    metrics = Metrics()

    def load(folder: Path) -> Any:
        return Run.load(folder, scoring.engine.value).matcher

    def observer(name: str) -> Any:
        return lambda *figures: metrics.batch(name, *figures)

    shown = example_pairs(examples) if examples else []
    served = []
    for name, folder in folders.items():
        log.info("loading %s …", folder)
        served.append(
            ServedRun.start(
                name,
                run_folder(folder),
                load,
                engine=scoring.engine.value,
                batch_size=scoring.batch_size,
                wait=batch_wait / 1000,
                most_waiting=limited.max_waiting,
                observe=observer(name),
            )
        )

    if not examples and any(run.facts()["data"] == BUILT_IN for run in served):
        shown = example_pairs(BUILT_IN)

    limits = Limits(
        body_bytes=limited.max_body,
        pairs=limited.max_pairs,
        characters=limited.max_characters,
        read_seconds=limited.read_timeout,
        answer_seconds=limited.answer_timeout,
    )
    at = f"[{host}]" if ":" in host else host
    address = f"http://{at}:{listening.getsockname()[1]}"
    app = make_app(
        served,
        limits,
        keys=keys,
        metrics=metrics,
        examples=shown,
        started=lambda: log.info("serving %s on %s", ", ".join(folders), address),
    )
    server = make_server(
        app,
        read_seconds=limits.read_seconds,
        grace=limits.read_seconds + limits.answer_seconds,
    )
    server.run(sockets=[listening])


def named_folders(runs: list[str]) -> dict[str, Path]:
    """Return the folders by name: the name of the folder, or NAME of `NAME=FOLDER`."""
    found: dict[str, Path] = {}
    for run in runs:
        name, equals, path = run.partition("=")
        folder = Path(run)
        if equals and not folder.exists():
            folder = Path(path)
        else:
            name = folder.resolve().name
        if not name or name in found:
            raise InputError(
                f"{run}: two runs would be called {name!r}; name them, as in one={run}."
                if name
                else f"{run}: expected NAME=FOLDER."
            )
        found[name] = folder
    return found


def example_pairs(data: str) -> list[tuple[str, str]]:
    """Return some pairs, evenly spaced: of a file, or of the test pairs of other data."""
    source = Source(data)
    pairs = source.rows() if Path(source.data).is_file() else source.split("test")
    step = max(1, len(pairs) // EXAMPLES)
    return list(zip(pairs.sentence1[::step], pairs.sentence2[::step]))[:EXAMPLES]


def read_keys(file: Path) -> list[str]:
    """Return the keys of a file, one per line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"--api-key-file {file}: cannot read it: {reason}.") from error
    keys = [line.strip() for line in lines if line.strip()]
    if not keys or not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise InputError(
            f"--api-key-file {file}: expected a key per line, of printable ASCII characters "
            "without spaces."
        )
    return keys

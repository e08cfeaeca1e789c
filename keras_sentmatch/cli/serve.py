"""`serve`: predictions over HTTP, with a page."""

import functools
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Scoring, cards_of
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tokens import read_text

log = logging.getLogger(__name__)
LOCAL = ("127.0.0.1", "::1", "localhost")


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
    port: Annotated[int, option("Port; 0 chooses a free one.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, option("Address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    api_key_file: Annotated[
        Path | None, option("File of keys, one per line. Every request but /health needs one.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        option(
            "A limit: pairs, characters, body_bytes, read_seconds, answer_seconds.",
            "--set",
            metavar="LIMIT=NUMBER",
        ),
    ] = None,
) -> None:
    """Serve runs over HTTP, with a page to try them."""
    folders = named_folders(runs)
    keys = read_keys(api_key_file) if api_key_file else []
    try:
        from keras_sentmatch.service.gate import Limits, Metrics
        from keras_sentmatch.service.server import listen, make_server
    except ModuleNotFoundError as error:
        raise InputError(
            f'serve needs {error.name}. Run pip install "keras-sentmatch[serve]".'
        ) from error
    limits = Limits(**parse_limits(setting or [], vars(Limits())))
    for folder in folders.values():
        cards_of(folder)
    listening = listen(host, port)
    if host not in LOCAL and not keys:
        log.warning(
            "anyone who can reach %s can send requests; --api-key-file requires a key", host
        )
    from keras_sentmatch.inference.matcher import run_folder
    from keras_sentmatch.service.app import make_app
    from keras_sentmatch.service.batching import ServedRun

    metrics = Metrics()
    served = []
    for name, folder in folders.items():
        log.info("loading %s …", folder)
        served.append(
            ServedRun.start(
                name,
                run_folder(folder),
                lambda folder: scoring.load(folder).matcher,
                batch_size=scoring.batch_size,
                most_waiting=max(16_384, limits.pairs),
                observe=functools.partial(metrics.batch, name),
            )
        )
    at = f"[{host}]" if ":" in host else host
    address = f"http://{at}:{listening.getsockname()[1]}"
    app = make_app(
        served,
        limits,
        keys=keys,
        metrics=metrics,
        examples=example_pairs() if "embedded" in [r.facts()["data"] for r in served] else [],
        started=lambda: log.info("serving %s on %s", ", ".join(folders), address),
    )
    grace = limits.read_seconds + limits.answer_seconds
    server = make_server(app, read_seconds=limits.read_seconds, grace=grace)
    server.run(sockets=[listening])


def parse_limits(settings: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """Return the limits that `--set LIMIT=NUMBER` names."""
    found: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        try:
            found[name] = type(known[name])(text)
        except (KeyError, ValueError):
            found[name] = 0
        if not 0 < found[name] < float("inf"):
            raise InputError(
                f"--set {setting} is not accepted. Expected LIMIT=NUMBER with a number above 0 for one "
                f"of {', '.join(known)}."
            )
    return found


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
                f"{run}: the name {name!r} is empty or used twice. Name the run, as in NAME={folder}."
            )
        found[name] = folder
    return found


def example_pairs() -> list[tuple[str, str]]:
    """Return five of the built-in test pairs. Pairs of other data may be private."""
    pairs = Source("embedded").splits()["test"]
    return list(zip(pairs.sentence1, pairs.sentence2))[:: len(pairs) // 5][:5]


def read_keys(file: Path) -> list[str]:
    """Return the keys of a file, one per line."""
    keys = [line.strip() for line in read_text(file).splitlines() if line.strip()]
    if not keys or not all(key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise InputError(
            f"--api-key-file {file} has no usable keys. Expected one key per line, of printable ASCII "
            "characters without spaces."
        )
    return keys

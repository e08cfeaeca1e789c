"""The trials for TensorBoard's HParams tab, written by TensorBoard's own protocol buffers, without TensorFlow."""

import importlib.util
import time
from pathlib import Path
from typing import Any

from keras_sentmatch.tuning.trials import Row, Trials

METRICS = ("parameters", "pair_seconds", "pairs_per_second", "seconds")  # after the score
FILE = "events.out.tfevents.0.search"  # rewritten each time


def write_hparams(trials: Trials, folder: Path) -> Path | None:
    """Writes what was searched, and each trial with its metrics, as runs of TensorBoard.

    Parameters that did not matter in a trial are left out of it; trials that failed have no
    metrics. Returns the folder, or None where TensorBoard is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        return None
    # `tensorboard.plugins.hparams.api` would load TensorFlow where it is installed; these don't.
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

    states = {
        "completed": api_pb2.STATUS_SUCCESS,
        "failed": api_pb2.STATUS_FAILURE,
        "running": api_pb2.STATUS_RUNNING,
    }
    names = [trials.objective, *METRICS]
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in names]
    infos = [_info(trials, name) for name in trials.searched]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)
    _write(folder, [_summary(experiment=experiment)])
    for row in trials.rows:
        start = plugin_data_pb2.SessionStartInfo(group_name=row["trial"])
        for name in trials.searched:
            if row[name] is not None:
                _set_value(start.hparams[trials.names[name]], trials, name, row[name])
        status = states.get(row["status"], api_pb2.STATUS_UNKNOWN)
        end = plugin_data_pb2.SessionEndInfo(status=status)
        session = [_summary(session_start_info=start), _summary(session_end_info=end)]
        _write(folder / row["trial"], session + _scalars(trials, row))
    return folder


def _info(trials: Trials, name: str) -> Any:
    """A parameter with its values or ends."""
    from tensorboard.plugins.hparams import api_pb2

    text = _is_text(trials, name)
    kind = api_pb2.DATA_TYPE_STRING if text else api_pb2.DATA_TYPE_FLOAT64
    info = api_pb2.HParamInfo(name=trials.names[name], description=name, type=kind)
    values = trials.searched[name]
    if trials.is_range(name):
        info.domain_interval.min_value, info.domain_interval.max_value = values[0], values[-1]
    else:
        for value in values:
            _set_value(info.domain_discrete.values.add(), trials, name, value)
    return info


def _is_text(trials: Trials, name: str) -> bool:
    return any(isinstance(value, str) for value in trials.searched[name])


def _set_value(field: Any, trials: Trials, name: str, value: Any) -> None:
    if _is_text(trials, name):
        field.string_value = str(value)
    else:
        field.number_value = float(value)


def _summary(**content: Any) -> Any:
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    (tag,) = content
    noted = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**content))
    value = summary_pb2.Summary.Value(
        tag=f"_hparams_/{tag}", metadata=noted, tensor=metadata.NULL_TENSOR
    )
    return summary_pb2.Summary(value=[value])


def _scalars(trials: Trials, row: Row) -> list[Any]:
    from tensorboard.compat.proto import summary_pb2

    values = {trials.objective: row["score"], **{name: row.get(name) for name in METRICS}}
    return [
        summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        for tag, value in values.items()
        if value is not None
    ]


def _write(folder: Path, summaries: list[Any]) -> None:
    from tensorboard.compat.proto import event_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    now = time.time()
    events = [event_pb2.Event(wall_time=now, file_version="brain.Event:2")]
    events += [event_pb2.Event(wall_time=now, summary=summary) for summary in summaries]
    with open(folder / FILE, "wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())

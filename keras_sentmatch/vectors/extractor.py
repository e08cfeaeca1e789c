"""How one set of word vectors was extracted from an encoder, kept to extract more of them."""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import COPY, check_types, inside, read_arrays, read_object
from keras_sentmatch.vectors.backbone_words import WordEncoder

_FORMAT = 1
_FILES = "vector_extractor.json", "vector_extractor.npz"
_KINDS = {  # of what vector_extractor.json holds
    "encoder": str,
    "layer": (int, str),
    "pooling": str,
    "scale": float,
    "dim": int,
    "probes": [str],
}
_PART = 8192  # rows; no wide copy of all
_TOLERANCE = 0.05  # how far two vectors of one word may be apart, as a share of their length


@dataclass(frozen=True)
class VectorExtractor:
    """The projection of an encoder's states of words to word vectors.

    `extract_vectors` makes it, `WordVectors.extractor` holds it, and a run folder keeps it: with the
    encoder, words that training never saw get vectors like those that it saw.

    Attributes:
        encoder: Preset or folder of the encoder.
        layer, pooling: See `WordEncoder.states`.
        scale: Length of the vectors; 0 leaves them as they are.
        dim: Dimension of the vectors.
        mean: What is subtracted from the states, float32 `[width]`.
        axes: The axes of the PCA, float32 `[width, rank]`; rank is at most `dim`.
        probes: Some words, to check that an encoder is the same one.
        probe_vectors: Their vectors, float32 `[probes, dim]`.
    """

    encoder: str
    layer: int | str
    pooling: Any
    scale: float
    dim: int
    mean: np.ndarray
    axes: np.ndarray
    probes: Sequence[str] = ()
    probe_vectors: Any = ()

    def project(self, states: np.ndarray) -> np.ndarray:
        """The vectors `[n, dim]` of states `[n, width]`; the columns beyond the rank are zero."""
        matrix = np.zeros((len(states), self.dim), np.float32)
        for start in range(0, len(states), _PART):
            part = (states[start : start + _PART] - self.mean.astype(float)) @ self.axes
            if self.scale:
                norm = np.linalg.norm(part, axis=1, keepdims=True)
                part = np.divide(self.scale * part, norm, where=norm > 0, out=part)
            matrix[start : start + _PART, : part.shape[1]] = part
        return matrix

    def extract(self, words: Collection[str], encoder: WordEncoder) -> tuple[list[str], np.ndarray]:
        """The words that the encoder's tokenizer knows, and their vectors `[words, dim]`.

        Raises:
            InputError: where it is another encoder than the one the first vectors came from.
        """
        wanted = list(dict.fromkeys((*self.probes, *words)))
        options = {"layer": self.layer, "pooling": self.pooling, "progress": False}
        rows, states = encoder.states(wanted, **options)
        place = dict(zip(wanted, rows))
        same = states.shape[1] == len(self.mean) and all(place[word] >= 0 for word in self.probes)
        if same:
            found = self.project(states[[place[word] for word in self.probes]])
            apart = np.linalg.norm(found - self.probe_vectors, axis=1)
            same = bool((apart <= _TOLERANCE * np.linalg.norm(self.probe_vectors, axis=1)).all())
        if not same:
            raise InputError(
                f"{encoder.name} is not the encoder that the vectors were extracted from "
                f"({self.encoder}): it gives {', '.join(self.probes)} other vectors. Give that one."
            )
        known = [word for word in dict.fromkeys(words) if place[word] >= 0]
        return known, self.project(states[[place[word] for word in known]])

    def parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its settings for JSON, and its arrays: `VectorExtractor(**settings, **arrays)`."""
        arrays = {name: getattr(self, name) for name in ("mean", "axes", "probe_vectors")}
        return {name: v for name, v in vars(self).items() if name not in arrays}, arrays

    def save(self, folder: str | Path) -> None:
        """Writes `vector_extractor.json` and `vector_extractor.npz` into a folder."""
        plain, arrays = self.parts()
        text = json.dumps({"format": _FORMAT, **plain}, indent=1, ensure_ascii=False)
        (Path(folder) / _FILES[0]).write_text(text + "\n", encoding="utf-8", newline="\n")
        np.savez(Path(folder) / _FILES[1], **arrays)

    @classmethod
    def load(cls, folder: str | Path) -> "VectorExtractor | None":
        """Reads what `save` wrote; None where the folder holds none.

        Raises:
            InputError: for files that are damaged, or of another format.
        """
        path = Path(folder) / _FILES[0]
        if not path.is_file():
            return None
        plain = read_object(inside(path.parent, path.name))
        check_types(plain, {"format": int}, path)
        if (number := plain.pop("format", None)) != _FORMAT:
            raise InputError(f"{path} is of format {number}, this version reads {_FORMAT}.")
        file = inside(path.parent, _FILES[1])
        if not file.is_file():
            raise InputError(f"{file} is missing, and {path.name} is there: {COPY}.")
        check_types(plain, _KINDS, path)
        try:
            made = cls(**{**plain, **read_arrays(file)})
        except TypeError as error:
            raise InputError(f"{path} and {file.name} do not fit ({error}): {COPY}.") from error
        arrays = [np.asarray(a) for a in (made.mean, made.axes, made.probe_vectors)]
        found = [array.shape for array in arrays]
        width, rank = made.mean.size, made.axes.size // max(made.mean.size, 1)
        right = [(width,), (width, rank), (len(made.probes), made.dim)]
        finite = all(a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays)
        if found != right or rank > made.dim or not finite or not math.isfinite(made.scale):
            raise InputError(
                f"{file} has arrays of the shapes {found}, expected finite numbers of {right}: {COPY}."
            )
        return made

"""Two color scales that also work for the color-blind: white to blue, and orange over white to blue."""

import base64
import io

import numpy as np

STEPS = 32
BLUES = ("#ffffff", "#d6e6f4", "#9ecae1", "#4a98c9", "#1764ab", "#08306b")
ORANGES = ("#7f3b08", "#b35806", "#e08214", "#fdb863", "#fee0b6", "#ffffff")
SEQUENTIAL = BLUES
DIVERGING = ORANGES + BLUES[1:]


def _palette(stops: tuple[str, ...]) -> np.ndarray:
    """`STEPS + 1` colors, uint8 `[STEPS + 1, 3]`, evenly spread between the stops."""
    known = np.array([list(bytes.fromhex(stop[1:])) for stop in stops])
    at, places = np.linspace(0, len(stops) - 1, STEPS + 1), np.arange(len(stops))
    columns = [np.interp(at, places, column) for column in known.T]
    return np.stack(columns, 1).round().astype("uint8")


PALETTES = {"s": _palette(SEQUENTIAL), "d": _palette(DIVERGING)}


def levels(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """The color of each value, int in `[0, STEPS]`; -1 where it is not finite."""
    share = np.clip((values - low) / (high - low), 0, 1)
    return np.where(np.isfinite(values), np.nan_to_num(share) * STEPS + 0.5, -1).astype(int)


def palette_of(low: float) -> str:
    """The palette for values from `low`: `"d"` (diverging) below 0, else `"s"` (sequential)."""
    return "d" if low < 0 else "s"


def stops_of(low: float) -> tuple[str, ...]:
    """The main colors of that palette."""
    return DIVERGING if low < 0 else SEQUENTIAL


def is_dark(color: np.ndarray) -> bool:
    """Whether white reads better on it than black."""
    linear = (color / 255.0) ** 2.2
    return bool(linear @ [0.2126, 0.7152, 0.0722] < 0.18)


def png_uri(values: np.ndarray, low: float, high: float) -> str:
    """A `data:` address of a PNG with a pixel for each of `values`, `[rows, columns]`."""
    from matplotlib.image import imsave

    colors = np.concatenate([PALETTES[palette_of(low)], [[176, 176, 176]]]).astype("uint8")
    pixels = colors[levels(values, low, high)]
    file = io.BytesIO()
    imsave(file, pixels, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"

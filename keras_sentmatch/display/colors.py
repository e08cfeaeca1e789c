"""Color scales for the color-blind: from white to blue, and from orange over white to blue."""

from dataclasses import dataclass

import numpy as np

STEPS = 32
EVEN = 0.12  # position of an even share on the scale of shares: a pale color
_BLUES = ("#ffffff", "#d6e6f4", "#9ecae1", "#4a98c9", "#1764ab", "#08306b")
_ORANGES = ("#7f3b08", "#b35806", "#e08214", "#fdb863", "#fee0b6")
_NIGHT_BLUES = ("#16191d", "#1d3a54", "#23609a", "#3b8ad4", "#7cbcf0", "#d4eafc")
_NIGHT_ORANGES = ("#fed9a8", "#fdb04f", "#dd7f1c", "#99530f", "#4f3010")


def _palette(stops: tuple[str, ...]) -> np.ndarray:
    """Return `STEPS + 1` colors, uint8 `[STEPS + 1, 3]`, interpolated between the stops."""
    known = np.array([list(bytes.fromhex(stop[1:])) for stop in stops])
    at, places = np.linspace(0, len(stops) - 1, STEPS + 1), np.arange(len(stops))
    columns = [np.interp(at, places, column) for column in known.T]
    return np.stack(columns, 1).round().astype("uint8")


# "s" (sequential) for values from 0; "d" (diverging) for positive and negative values
PALETTES = {"s": _palette(_BLUES), "d": _palette(_ORANGES + _BLUES)}
NIGHT_PALETTES = {"s": _palette(_NIGHT_BLUES), "d": _palette(_NIGHT_ORANGES + _NIGHT_BLUES)}


@dataclass(frozen=True)
class Scale:
    """A mapping from values to colors.

    Attributes:
        low: The value of the first color: 0, or `-high` if there are negative values.
        high: The value of the last color.
        even: For shares of a whole, such as attention: an even share, which gets a pale color.
            Larger shares get darker by their logarithm. If 0, the scale is linear.
    """

    low: float
    high: float
    even: float = 0.0

    @property
    def palette(self) -> str:
        return "d" if self.low < 0 else "s"

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Return the position of each value on the scale, from 0 to 1; NaN if it is not finite."""
        if not self.even:
            found = np.clip((values - self.low) / (self.high - self.low), 0, 1)
        else:
            times = np.clip(values / self.even, 1e-9, None)
            above = np.log(times) / max(-np.log(self.even), 1e-9)
            found = np.where(times <= 1, EVEN * times, EVEN + (1 - EVEN) * np.clip(above, 0, 1))
        return np.where(np.isfinite(values), found, np.nan)

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Return the color of each value, int in `[0, STEPS]`; -1 if it is not finite."""
        return np.nan_to_num(self.positions(values) * STEPS + 0.5, nan=-1).astype(int)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The positions that a legend names, with their names."""
        if self.even:
            return [(0.0, "0"), (EVEN, f"even ({self.even:.2g})"), (1.0, "all")]
        middle = [(0.5, "0")] if self.low < 0 else []
        return [(0.0, f"{self.low:.3g}"), *middle, (1.0, f"{self.high:.3g}")]


def is_dark(color: np.ndarray) -> bool:
    """Return whether white text is easier to read on a color than black text."""
    linear = (color / 255.0) ** 2.2
    return bool(linear @ [0.2126, 0.7152, 0.0722] < 0.18)


def css_colors() -> list[list[tuple[str, str, bool]]]:
    """Return the name, color and darkness of each color, for light and for dark pages."""
    return [
        [
            (f"{name}{level}", f"#{bytes(color).hex()}", is_dark(color))
            for name, colors in palettes.items()
            for level, color in enumerate(colors)
        ]
        for palettes in (PALETTES, NIGHT_PALETTES)
    ]

"""Draw curves over time as SVG, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_COLOURS = ("#0b6bcb", "#c8511b", "#2b8a3e", "#8a2bb8")
_WIDTH, _HEIGHT, _COLUMNS = 520, 260, 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 48, 32


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line through points: seconds, value."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on common axes, which begin at zero."""

    title: str
    curves: Sequence[Curve]


def plot(panels: Sequence[Panel]) -> str:
    """Return an SVG image with all panels in a grid."""
    rows = ceil(len(panels) / _COLUMNS)
    size = f'width="{_WIDTH * _COLUMNS}" height="{max(rows, 1) * _HEIGHT}"'
    drawn = "\n".join(
        f'<g transform="translate({number % _COLUMNS * _WIDTH} {number // _COLUMNS * _HEIGHT})">{_panel(panel)}</g>'
        for number, panel in enumerate(panels)
    )
    style = 'font-family="sans-serif" font-size="11" fill="#333"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n<rect {size} fill="#fff"/>\n{drawn}\n</svg>\n'


def _panel(panel: Panel) -> str:
    points = [point for curve in panel.curves for point in curve.points]
    across, up = ticks(max(at for at, _ in points)), ticks(max(value for _, value in points))

    def x(at: float) -> float:
        return round(_LEFT + at / across[-1] * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / up[-1] * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(panel.title)}</text>']
    for value in up:
        parts.append(f'<path d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:,g}</text>')
    for at in across:
        parts.append(f'<text x="{x(at)}" y="{_HEIGHT - 12}" text-anchor="middle">{at:g} s</text>')
    for number, curve in enumerate(panel.curves):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(f"{x(at)},{y(value)}" for at, value in curve.points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{_LEFT + 110 * number}" y="34" fill="{colour}">{escape(curve.name)}</text>')
    return "\n".join(parts)


def ticks(most: float) -> list[float]:
    """Return four to eight round numbers from 0 to at least `most`."""
    if most <= 0:
        return [0.0, 1.0]
    unit = 10.0 ** floor(log10(most / 4))
    step = next(unit * factor for factor in (1, 2, 5, 10) if most / (unit * factor) <= 7)
    return [number * step for number in range(ceil(most / step) + 1)]

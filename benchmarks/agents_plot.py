"""A step plot with bands as SVG: median and quartiles of the best value against evaluations, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 260, 50, 60
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
"""Paul Tol's bright scheme: distinguishable with colour-blind eyes."""


@dataclass(frozen=True)
class Curve:
    """`bands` holds (quartile, median, quartile) at each of `counts`; infinity where there is nothing to show."""

    name: str
    counts: list[int]
    bands: list[tuple[float, ...]]
    dashed: bool


def step_plot(title: str, curves: list[Curve]) -> str:
    """Return the plot; a curve and its dashed twin share a colour."""
    most = max(max(curve.counts) for curve in curves)
    least = min(min(curve.counts) for curve in curves)
    shown = [value for curve in curves for band in curve.bands for value in band[1:2] if math.isfinite(value)]
    top = 10 ** math.ceil(math.log10(max(shown)))

    def x(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(count / least) / math.log(most / least)

    def y(value: float) -> float:
        share = math.log(min(max(value, 1.0), top)) / math.log(top)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15">{escape(title)}</text>',
    ]
    for power in range(int(math.log10(top)) + 1):
        parts.append(_line(LEFT, y(10**power), WIDTH - RIGHT, y(10**power), "#dddddd"))
        parts.append(f'<text x="{LEFT - 8}" y="{y(10**power) + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    count = 8
    while count <= most:
        parts.append(_line(x(count), TOP, x(count), HEIGHT - BOTTOM, "#eeeeee"))
        parts.append(f'<text x="{x(count):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count:,}</text>')
        count *= 4
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">evaluations</text>')
    for number, curve in enumerate(curves):
        parts += _drawn(curve, COLOURS[number % (len(curves) // 2) % len(COLOURS)], x, y)
        parts += _legend(curve, COLOURS[number % (len(curves) // 2) % len(COLOURS)], number)
    return "\n".join([*parts, "</svg>\n"])


Scale = Callable[[float], float]


def _drawn(curve: Curve, colour: str, x: Scale, y: Scale) -> list[str]:
    points = [(count, band) for count, band in zip(curve.counts, curve.bands, strict=True) if math.isfinite(band[1])]
    if not points:
        return []
    upper = [f"{x(count):.1f},{y(band[2]):.1f}" for count, band in points]
    lower = [f"{x(count):.1f},{y(band[0]):.1f}" for count, band in reversed(points)]
    middle = [f"{x(count):.1f},{y(band[1]):.1f}" for count, band in points]
    dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
    return [
        f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" fill-opacity="0.12"/>',
        f'<polyline points="{" ".join(middle)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>',
    ]


def _legend(curve: Curve, colour: str, number: int) -> list[str]:
    at = TOP + 10 + 22 * number
    dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
    line = f'<line x1="{WIDTH - RIGHT + 15}" y1="{at}" x2="{WIDTH - RIGHT + 45}" y2="{at}" stroke="{colour}"'
    return [
        f'{line} stroke-width="2"{dash}/>',
        f'<text x="{WIDTH - RIGHT + 52}" y="{at + 4}">{escape(curve.name)}</text>',
    ]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'

"""The table as bars: a group for each row, scaled to its own fastest."""
import statistics
from html import escape

from table import number, rates

WIDTH, NAMES, BARS, LINE, GAP = 860, 290, 420, 22, 18

STYLE = """
  text { font: 13px sans-serif; fill: #222 }
  .work { font-weight: bold }
  .forebay { fill: #1f77b4 } .other { fill: #a8a8a8 }
  .range { stroke: #222; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .other { fill: #777 } .range { stroke: #ddd }
  }
"""


def chart(measured, rows):
    """The text of an SVG: bars are medians, lines reach from the slowest round to the fastest."""
    parts, top = [], GAP
    for row in measured:
        parts.append(f'<text class="work" x="8" y="{top + 14}">{escape(row.work)}</text>')
        top += LINE
        every = {c.key: list(rates(rows, row, c.key).values()) for c in row.contenders}
        most = max(map(max, every.values()))
        for contender in row.contenders:
            parts += bar(contender.name, every[contender.key], most, top)
            top += LINE
        top += GAP
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
            f'height="{top}" role="img" aria-label="Images a second, forebay and others">')
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def bar(name, values, most, top):
    least, middle, fastest = (BARS * v / most for v in (min(values), statistics.median(values), max(values)))
    kind = "forebay" if name.startswith("forebay") else "other"
    y = top + LINE / 2 - 1
    return [
        f'<text x="{NAMES - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" x="{NAMES}" y="{top + 2}" width="{middle:.1f}" height="{LINE - 6}"/>',
        f'<line class="range" x1="{NAMES + least:.1f}" y1="{y}" x2="{NAMES + fastest:.1f}" y2="{y}"/>',
        f'<text x="{NAMES + fastest + 8:.1f}" y="{top + 14}">{number(statistics.median(values))}/s</text>',
    ]

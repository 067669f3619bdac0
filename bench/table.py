"""Plain text tables."""

import math
import pathlib

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
END = "<!-- End of the figures -->"


def render(headings, rows):
    """A table with the first column to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in [headings, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def number(value, digits=3):
    """A number with so many significant digits, or a dash for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}" if abs(value) >= 1e-3 else f"{value:.{digits - 1}e}"


def milliseconds(seconds):
    return "-" if seconds is None else number(seconds * 1e3)


def megabytes(count):
    return "-" if count is None else number(count / 1e6)


def ratio(value):
    return "-" if value is None else f"{value:.2f}x"


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def level(results):
    """What the command of a section ends with: figures of CPUs with AVX2 alone have sections of their own."""
    return "" if "avx512f" in results["machine"]["isa"] else ", AVX2"


def write_section(command, results, headings, rows, text=(), document=None):
    """Puts a table, the machine that it is of and `text` between the marks of a command, in docs/benchmarks.md or another document. What has
    no marks yet goes in front of the same part's of another machine."""
    document, mark = document or DOCUMENT, f"<!-- Written by {command} -->"
    info = results["machine"]
    machine = f"{info['cpu']}, {info['cores']} cores, {' '.join(info['isa'])}, {info['time']}, load {info['load']} when the run began"
    lines = ["| " + " | ".join(row) + " |" for row in [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]]
    before, found, rest = document.read_text().partition(mark)
    if not found:
        other = f"<!-- Written by {command.partition(', ')[0]}"
        before, found, rest = before.partition(other)
        if not found:
            raise ValueError(f"{document.name} has no section that begins with {mark}")
        rest = f"{END}\n\n{other}{rest}"
    document.write_text(before + "\n".join([mark, "", machine, "", *lines, "", *text, END]) + rest.partition(END)[2])

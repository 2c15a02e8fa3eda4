"""From rows of raw.csv to a table."""
import statistics


def rates(rows, row, contender):
    """images/s by round."""
    mine = [r for r in rows if (r["row"], r["contender"]) == (row.key, contender)]
    return {int(r["round"]): float(r["images_per_s"]) for r in mine}


def ratios(rows, row, over, under):
    """Round by round."""
    over, under = rates(rows, row, over), rates(rows, row, under)
    return [over[number] / under[number] for number in sorted(over.keys() & under.keys())]


def number(value):
    """Three digits that count, with separators."""
    digits = len(str(int(value)))
    return f"{round(value, min(0, 3 - digits)):,.0f}"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def goal(ratio, wanted):
    return "; ".join(f"{least:g}: {'met' if ratio >= least else 'not met'}" for least in wanted) or "told only"


def table(measured, rows):
    """A line a ratio; images/s are medians with the least and the most of the rounds. Whoever is compared
    more than once has them where it is first, since its rounds differ by what other work takes."""
    lines = [
        "| work | | images/s | against | images/s | ratio by round, median (range) | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    seen = set()
    for row in measured:
        names = {contender.key: contender.name for contender in row.contenders}
        for over, under, wanted in row.ratios:
            each = ratios(rows, row, over, under)
            middle = statistics.median(each)
            told = f"{middle:.2f} ({min(each):.2f} to {max(each):.2f})"
            own = "as above" if (row.work, over) in seen else spread(list(rates(rows, row, over).values()))
            seen.add((row.work, over))
            lines.append("| {} | {} | {} | {} | {} | {} | {} |".format(
                row.work, names[over], own, names[under], spread(list(rates(rows, row, under).values())), told,
                goal(middle, wanted)))
    return "\n".join(lines)

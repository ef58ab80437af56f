"""Draws docs/ablation/*.svg and prints the table of docs/ablation.md from the runs' metrics.

    python3 docs/ablation/curves.py runs docs/ablation

Reads runs/ablation-{grpo,grpo-roc}-{1,2,3}/metrics.jsonl. Only the standard library.
"""

import json
import pathlib
import statistics
import sys

ARMS = [("grpo", "GRPO", "#c2410c"), ("grpo-roc", "GRPO-RoC", "#1d4ed8")]
SEEDS = [1, 2, 3]
CURVES = [
    ("accuracy", "accuracy", "Share of right rollouts", 100, "%"),
    ("tool_error_share_right", "tool-errors", "Failed calls in right rollouts", 100, "%"),
    ("response_tokens_mean", "response-tokens", "Response length", 1, " tokens"),
]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 300, 62, 40, 34, 16
# Steps over which a point is averaged, and over which the table's "at the end" is.
SMOOTH, LAST = 5, 10


def lines(folder, arm, seed, kind):
    path = folder / f"ablation-{arm}-{seed}" / "metrics.jsonl"
    all = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in all if line["kind"] == kind]


def smooth(values):
    half = SMOOTH // 2
    windows = [values[max(0, i - half) : i + half + 1] for i in range(len(values))]
    return [statistics.fmean([v for v in window if v is not None] or [0.0]) for window in windows]


def curve(folder, name, title, factor, unit):
    series = []
    for arm, label, colour in ARMS:
        for seed in SEEDS:
            values = [line[name] for line in lines(folder, arm, seed, "rl_step")]
            series.append((label, colour, [factor * v for v in smooth(values)]))
    top = max(max(values) for _, _, values in series) * 1.05
    steps = max(len(values) for _, _, values in series)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / max(steps - 1, 1)
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" fill="#111827">{title}</text>',
    ]
    for tick in range(5):
        value = top * tick / 4
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#374151">{value:.0f}{unit.strip() if unit == "%" else ""}</text>')
    for tick in range(0, steps, max(1, steps // 6)):
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#374151">{tick + 1}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle" fill="#374151">step</text>')
    for _, colour, values in series:
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-opacity="0.85"/>')
    for index, (_, label, colour) in enumerate(ARMS):
        left = WIDTH - RIGHT - 200 + 100 * index
        out.append(f'<line x1="{left}" x2="{left + 18}" y1="16" y2="16" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{left + 23}" y="20" fill="#111827">{label}</text>')
    return "\n".join(out + ["</svg>", ""])


def row(folder, arm, seed):
    first, *_, last = lines(folder, arm, seed, "rl_evaluation")
    steps = lines(folder, arm, seed, "rl_step")[-LAST:]
    mean = lambda name: statistics.fmean([step[name] for step in steps if step[name] is not None])
    return {
        "before": 100 * first["accuracy"],
        "after": 100 * last["accuracy"],
        "errors before": 100 * first["tool_error_share_right"],
        "errors after": 100 * last["tool_error_share_right"],
        "errors in training": 100 * mean("tool_error_share_right"),
        "tokens": mean("response_tokens_mean"),
    }


def main():
    folder, target = map(pathlib.Path, sys.argv[1:])
    for name, file, title, factor, unit in CURVES:
        (target / f"{file}.svg").write_text(curve(folder, name, title, factor, unit))
    print("| | seed | accuracy before | after | failed calls in right episodes before | after | in the last steps of training | response tokens |")
    print("|---|---|---|---|---|---|---|---|")
    for arm, label, _ in ARMS:
        rows = [row(folder, arm, seed) for seed in SEEDS]
        for seed, values in zip(SEEDS, rows):
            print(f"| {label} | {seed} | " + " | ".join(f"{value:.1f}{'' if key == 'tokens' else ' %'}" for key, value in values.items()) + " |")
        means = {key: statistics.fmean(values[key] for values in rows) for key in rows[0]}
        print(f"| **{label}** | mean | " + " | ".join(f"**{value:.1f}{'' if key == 'tokens' else ' %'}**" for key, value in means.items()) + " |")


main()

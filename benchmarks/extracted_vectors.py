"""What each option of extracted word vectors is worth: one changed at a time, then those that help together.

    python benchmarks/extracted_vectors.py --data path/to/sick --encoder path/to/minilm --seeds 0,1,2

Every run is one of `quality.py`, with a row in `results/extracted_vectors.csv`; runs with a row there are not run
again. Options are judged on the validation part alone, by the difference to the default with
the same seed. With no `--data` it prints only the table of all rows.
"""

import argparse
import statistics
from pathlib import Path

import measuring
import quality

quality.RESULTS = measuring.Results("extracted_vectors")
FACTORS = {  # beside the defaults
    "layer": ["0", "2", "4", "mean"],
    "pooling": ["first", "cls"],
    "center": ["false"],
    "dim": ["50", "100", "200", "384"],
    "scale": ["0", "1", "2.5", "10"],
    "frequency_weighting": ["true"],
    "sif": ["1e-3"],
}
HEAD = ["model", "data", "vectors", "changed", "seeds", "validation", "difference", "seeds better"]


def run_all(args: argparse.Namespace) -> None:
    seeds = list(map(int, args.seeds.split(",")))

    def mean(*changed: str) -> float:
        """The figure over the seeds, of runs that are made where they are not there yet."""
        found = [
            quality.run(args, args.model, [*args.set, *changed], args.backend, args.vectors, seed)
            for seed in seeds
        ]
        return statistics.mean(found)

    default, helped = mean(), []
    for name in args.factors.split(","):
        found = {value: mean(f"vectors.{name}={value}") for value in FACTORS[name]}
        best = max(found, key=lambda value: found[value])
        if found[best] > default:
            helped.append(f"vectors.{name}={best}")
    if len(helped) > 1:
        mean(*helped)


def summary() -> list[list[str]]:
    """A row for each set of options, the best first: mean and deviation over the seeds, and difference to the default."""
    groups: dict[tuple[str, ...], dict[tuple[str, str], dict[str, float]]] = {}
    for row in quality.RESULTS.rows():
        settings = row["settings"].split()
        changed = [s for s in settings if s.partition("=")[0] in {f"vectors.{f}" for f in FACTORS}]
        rest = " ".join(s for s in settings if s not in changed)
        of = groups.setdefault((row["model"], row["data"], row["vectors"], rest), {})
        by_seed = of.setdefault((row["backend"], " ".join(changed)), {})
        by_seed[row["seed"]] = quality.primary(row)
    lines = []
    for (model, data, vectors, rest), of in sorted(groups.items()):
        ordered = sorted(of.items(), key=lambda item: -statistics.mean(item[1].values()))
        for (backend, changed), found in ordered:
            default = of.get((backend, ""), {})
            apart = [value - default[seed] for seed, value in found.items() if seed in default]
            lines.append(
                [
                    model,
                    " ".join(part for part in (data, rest, backend) if part),
                    vectors,
                    changed.replace("vectors.", "") or "(default)",
                    ", ".join(found),
                    measuring.mean_and_deviation(list(found.values()), 3),
                    measuring.mean_and_deviation(apart, 3, "+") if changed and apart else "–",
                    f"{sum(d > 0 for d in apart)} of {len(apart)}" if changed and apart else "–",
                ]
            )
    return lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", help="folder of the data set, or FORMAT:folder")
    parser.add_argument("--name", help="the data set's name in the table (default: the folder's)")
    parser.add_argument("--encoder", help="folder or KerasHub preset of the encoder")
    parser.add_argument("--model", default="re2")
    parser.add_argument("--backend", default="tensorflow")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--factors", default=",".join(FACTORS), help="names, with commas between")
    parser.add_argument(
        "--set", action="append", default=[], help="TABLE.KEY=VALUE of every run; may be repeated"
    )
    parser.add_argument("--runs", default="runs/extracted-vectors")
    args = parser.parse_args()
    if args.data and not args.show:
        if not args.encoder:
            parser.error("--data needs --encoder: what the vectors are extracted from")
        if unknown := set(args.factors.split(",")) - set(FACTORS):
            parser.error(f"--factors {', '.join(unknown)}: expected some of {', '.join(FACTORS)}")
        args.name = args.name or Path(args.data.split(":")[-1]).name
        args.vectors, args.trained_on, args.teacher = f"encoder:{args.encoder}", "", ""
        run_all(args)
    quality.RESULTS.show(HEAD, summary(), args.write)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Medians over the pairs of a `comity-lab corun --pairs --json` report, in the measures of DWS §4. lab/bench/dws-pairs.sh
calls it.

A program's time together is the median of its rounds, counted ones only. B is the median of its rounds alone under
the first contestant; the slow-down ratio is T / B, and D_ij the difference between those of a pair. Tables in
Markdown.
"""

import json
import sys
from statistics import geometric_mean, median, quantiles


def contestant(corun):
    return corun["policy"] if corun["backend"] == "comity" else corun["backend"]


def name(program):
    return program["name"].split(":")[0]


with open(sys.argv[1]) as file:
    coruns = json.load(file)["coruns"]
contestants = list(dict.fromkeys(map(contestant, coruns)))
base = contestants[0]
pairs, alone = {}, {}
for corun in coruns:
    who = contestant(corun)
    pair = tuple(name(program) for program in corun["programs"])
    pairs.setdefault(pair, {})[who] = [median(program["times"]["corun_s"]) for program in corun["programs"]]
    for program in corun["programs"]:
        alone.setdefault((name(program), who), []).extend(program["times"]["solo_s"])
alone = {key: median(times) for key, times in alone.items()}


def ratios(pair, who):
    return [together / alone[program, base] for program, together in zip(pair, pairs[pair][who])]


def difference(pair, who):
    first, second = ratios(pair, who)
    return abs(first - second)


print(f"Response time over {base}'s in the same pair ({len(pairs)} pairs, two programs each), D_ij, and the time alone over {base}'s:\n")
print("| contestant | T: geometric mean | best | worst | D_ij: median (quartiles) | least | most | alone |")
print("|---|---|---|---|---|---|---|---|")
for who in contestants:
    times = [mine / its for pair in pairs.values() for mine, its in zip(pair[who], pair[base])]
    apart = [difference(pair, who) for pair in pairs]
    quarter, middle, three = quantiles(apart, n=4)
    solo = geometric_mean(alone[program, who] / alone[program, base] for program, other in alone if other == who)
    print(
        f"| `{who}` | {geometric_mean(times):.3f} | {min(times):.2f} | {max(times):.2f} "
        f"| {middle:.2f} ({quarter:.2f} to {three:.2f}) | {min(apart):.2f} | {max(apart):.2f} | {solo:.3f} |"
    )

print(f"\nSlow-down ratios T / B of both programs, and D_ij:\n\n| pair | {' | '.join(contestants)} |")
print("|---" * (len(contestants) + 1) + "|")
for pair in pairs:
    cells = [f"{ratios(pair, who)[0]:.2f}, {ratios(pair, who)[1]:.2f}; {difference(pair, who):.2f}" for who in contestants]
    print(f"| {' + '.join(pair)} | {' | '.join(cells)} |")

"""What calibration is worth to advice on a real model: recipes of flat advice, of an imatrix, of
alpha alone, of a calibration, and of a calibration with error feedback in every encoder, for budgets
from 4.3 to 7 bits, each quantized and run on text that the calibration has not seen; and how well the
predicted error of random recipes ranks the measured. "Best single format" is one format for all
weights, by the same encoders: without error feedback, and with it.

    python3 bench/advice_calibrated.py KERF [--model DIR --tokens FILE --length N]
        [--calibrate A:B --judge A:B] [--judge-random A:B] [--random N] [--budgets LIST]
        [--gram] [--feedback [--again]] [--work DIR] [--name NAME] [--table]
        [--alpha-rows A:B] [--formats LIST] [--torch] [--device cuda]

Calibrates on rows 0 to 127 of tests/data/tiny-llama/eval.u16 and judges on rows 128 to 255, unless
told otherwise. --alpha-rows: alpha from fewer rows than the rest, since it takes a pass for each group.
--again: feedback goes over the columns again. --device: of kerf calibrate and kerf eval. --work keeps
calibrations, scores and figures, so that a second run goes on. Writes
bench/results/advice-calibrated-NAME.json and .md (--table: the page alone, from the last results). Sizes are
bits per weight of what is quantized; figures do not depend on the machine, but for the C library's exp.

--torch judges on a GPU (bench/torch_judge.py): every format is quantized and decoded by kerf once for all
weights, with feedback and without, and a recipe takes from each what it names; nothing of a weight's bytes
depends on the formats of others. One recipe is quantized as a whole and run by kerf eval, and what the two
say differently is among the results.
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "tests", "data", "tiny-llama")
METHODS = ["flat", "imatrix", "alpha", "calibration"]
GRAM, FEEDBACK = "calibration and Gram", "with feedback"
MARK = (((), "feedback"),)  # at the end of a recipe that is quantized with error feedback
AT_ONCE = 6
DECODED_AT_ONCE = 4


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("kerf")
    p.add_argument("--model", default=TINY)
    p.add_argument("--tokens", default=os.path.join(TINY, "eval.u16"))
    p.add_argument("--length", default="256")
    p.add_argument("--calibrate", default="0:128")
    p.add_argument("--judge", default="128:256")
    p.add_argument("--judge-random", default="")
    p.add_argument("--random", type=int, default=100)
    p.add_argument("--budgets", default="4.3,4.51,4.75,5,5.5,6.5,7")
    p.add_argument("--name", default="tiny-llama")
    p.add_argument("--gram", action="store_true")
    p.add_argument("--feedback", action="store_true")
    p.add_argument("--again", action="store_true")
    p.add_argument("--alpha-rows", default="")
    p.add_argument("--formats", default="")
    p.add_argument("--torch", action="store_true")
    p.add_argument("--device", default="cpu")
    p.add_argument("--work", default="")
    p.add_argument("--table", action="store_true")
    return p.parse_args()


class Bench:
    def __init__(self, a, work):
        self.a, self.work = a, work
        self.measured, self.kept = {}, os.path.join(work, "measured.json")
        if os.path.exists(self.kept):
            with open(self.kept) as f:
                kept = json.load(f)
            self.source = kept["source"]
            self.measured = {(tuple((tuple(t), c) for t, c in recipe), rows): m
                             for recipe, rows, m in kept["measured"]}
        self.tokens = ["--tokens", a.tokens, "--length", a.length, "--device", a.device]
        self.torch, self.decoded = None, {}
        if a.torch:
            import torch_judge
            self.torch = torch_judge.Judge(a.model, a.tokens, int(a.length))

    def kerf(self, *words):
        r = subprocess.run([self.a.kerf, *words], capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"kerf {' '.join(words)}: {r.stderr}")
        return r.stdout

    def path(self, name):
        return os.path.join(self.work, name)

    def calibrate(self, name, rows, *more):
        """What kerf calibrate prints, which is kept beside its folder."""
        if not os.path.exists(self.path(name + ".json")):
            text = self.kerf("calibrate", self.a.model, *self.tokens, "--rows", rows, "-o",
                             self.path(name), "-y", "--json", *more)
            with open(self.path(name + ".json"), "w") as f:
                f.write(text)
        with open(self.path(name + ".json")) as f:
            return json.load(f)

    def advise_once(self, budget, words, cache):
        """None where the budget cannot be met."""
        formats = ["-f", self.a.formats] if self.a.formats else []
        r = subprocess.run([self.a.kerf, "advise", self.a.model, "--budget", f"{budget}bits", "--json", "-y",
                            "--cache", cache, "-o", cache + ".recipe.json", *formats, *words],
                           capture_output=True, text=True)
        return json.loads(r.stdout) if r.returncode == 0 else None

    def advise(self, method, budgets, words):
        """The last budget scores, the others find its cache and run at once."""
        def other(budget):
            shutil.copyfile(cache, f"{cache}-{budget}")
            return self.advise_once(budget, words, f"{cache}-{budget}")

        cache = self.path(f"scores-{method.replace(' ', '-')}")
        first = self.advise_once(budgets[-1], words, cache)
        print(f"{clock()} advice: {method}", file=sys.stderr)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return [*pool.map(other, budgets[:-1]), first]

    def quantize(self, out, *how):
        self.kerf("quantize", self.a.model, "-o", self.path(out), "-y", *how)

    def decode(self, codec, how):
        """Quantizes all weights in one format and decodes them; the folder's path."""
        name = codec.replace(":", "-").replace("/", "-") + "-".join(h for h in how if h.startswith("--"))
        self.quantize("q" + name, "-f", codec, *how)
        self.kerf("dequantize", self.path("q" + name), "--dtype", "fp32", "-o", self.path("d" + name), "-y")
        shutil.rmtree(self.path("q" + name))
        return self.path("d" + name)

    def prepare(self, recipes):
        """Decodes what recipes name, some formats at once: a command alone does not keep all cores busy."""
        named = {(c, *(self.feedback() if r[-1:] == MARK else []))
                 for r in recipes for t, c in r if t and c != "keep"}
        todo = sorted(named - self.decoded.keys())
        with concurrent.futures.ThreadPoolExecutor(DECODED_AT_ONCE) as pool:
            for key, folder in zip(todo, pool.map(lambda k: self.decode(k[0], k[1:]), todo)):
                all_ = self.torch.load(os.path.join(folder, "model.safetensors"))
                self.decoded[key] = {k: v for k, v in all_.items() if "_proj." in k}
                shutil.rmtree(folder)

    def run_torch(self, recipe, rows):
        how = self.feedback() if recipe[-1:] == MARK else []
        changed = {n: self.decoded[(c, *how)][n] for t, c in recipe if t and c != "keep" for n in t}
        return self.torch.measure(changed, rows)

    def takes_feedback(self, codec):
        """0: not for a row of this model's lengths; kerf quantize refuses it for all weights."""
        r = subprocess.run([self.a.kerf, "quantize", self.a.model, "-o", self.path("none"), "-f", codec,
                            "--dry-run", *self.feedback()], capture_output=True)
        return r.returncode == 0

    def feedback(self):
        more = ["--again"] if self.a.again else ["--device", self.a.device]  # again: by the processor alone
        return ["--calibration", self.path("gram"), "--feedback", *more]

    def run_kerf(self, part, rows):
        for i, recipe in enumerate(part):
            doc = {"schema": "kerf.recipe/1",
                   "rules": [{"tensors": list(t), "codec": c} for t, c in recipe if t]}
            with open(self.path("r.json"), "w") as f:
                json.dump(doc, f)
            self.quantize(f"q{i}", "--recipe", self.path("r.json"),
                          *(self.feedback() if recipe[-1:] == MARK else []))
        return json.loads(self.kerf("eval", self.a.model, *[self.path(f"q{i}") for i in range(len(part))],
                                    *self.tokens, "--rows", rows, "--json"))

    def judge(self, recipes, rows):
        """Perplexity and KL of each recipe, a list of (group's tensors, codec); each once."""
        todo = [r for r in dict.fromkeys(recipes) if (r, rows) not in self.measured]
        if self.torch:
            self.prepare(todo)
        if self.torch and todo and rows == self.a.judge:
            self.source = self.torch.measure({}, rows)["perplexity"]
        for at in range(0, len(todo), AT_ONCE):
            part = todo[at:at + AT_ONCE]
            if self.torch:
                found = [self.run_torch(r, rows) for r in part]
            else:
                out = self.run_kerf(part, rows)
                found = out["candidates"]
                if rows == self.a.judge:
                    self.source = out["source"]["perplexity"]
            self.measured.update({(r, rows): c for r, c in zip(part, found)})
            self.keep()
            print(f"{clock()} {at + len(part)} of {len(todo)} measured", file=sys.stderr)
        return [self.measured[r, rows] for r in recipes]

    def keep(self):
        with open(self.kept + ".new", "w") as f:
            json.dump({"source": self.source, "measured": [[*k, m] for k, m in self.measured.items()]}, f)
        os.replace(self.kept + ".new", self.kept)


def clock():
    return time.strftime("%H:%M:%S")


def recipe_of(advice, choose):
    return tuple((tuple(g["tensors"]), choose(g)) for g in advice["groups"])


def codecs_of(advice):
    """Candidates that every group can have, but for keeping it."""
    lists = [{c["codec"] for c in g["candidates"]} for g in advice["groups"]]
    return [c["codec"] for c in advice["groups"][0]["candidates"]
            if c["codec"] != "keep" and all(c["codec"] in l for l in lists)]


def predicted(advice, recipe):
    total = 0
    for g, (_, codec) in zip(advice["groups"], recipe):  # MARK is behind the last group
        total += next(c["t2"] for c in g["candidates"] if c["codec"] == codec)
    return total


def ranks(x):
    order = sorted(range(len(x)), key=lambda i: x[i])
    out = [0] * len(x)
    for rank, i in enumerate(order):
        out[i] = rank
    return out


def rank_correlation(x, y):
    a, b = ranks(x), ranks(y)
    n = len(a)
    return 1 - 6 * sum((p - q) ** 2 for p, q in zip(a, b)) / (n * (n * n - 1))


def figures(m):
    return {k: m[k] for k in ("perplexity", "kl", "kl_interval", "kl_p99", "flips")}


def measure(b, save):
    a = b.a
    print(f"{clock()} calibrating", file=sys.stderr)
    cal = b.calibrate("cal", a.alpha_rows or a.calibrate)
    if a.gram or a.feedback:
        METHODS.extend([GRAM] + [FEEDBACK] * a.feedback)
        b.calibrate("gram", a.calibrate, "--gram", "--alpha-by", "none")
    b.calibrate("plain", a.calibrate, "--alpha-by", "none")
    with open(b.path("alpha.json"), "w") as f:
        json.dump({"schema": "kerf.alpha/1",
                   "alpha": {w["name"]: max(w["alpha"], w["alpha_error"]) for w in cal["weights"]}}, f)
    how = {"flat": [], "imatrix": ["--imatrix", b.path("plain")],
           "alpha": ["--alpha", b.path("alpha.json")],
           "calibration": ["--calibration", b.path("plain"), "--alpha", b.path("alpha.json")],
           GRAM: ["--calibration", b.path("gram"), "--alpha", b.path("alpha.json")]}
    how[FEEDBACK] = [*how[GRAM], "--feedback", *["--again"] * a.again]
    budgets = [float(x) for x in a.budgets.split(",")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = pool.map(lambda m: b.advise(m, budgets, how[m]), METHODS)
        advice = {(m, x): v for m, of in zip(METHODS, found) for x, v in zip(budgets, of)}
    first = advice["flat", budgets[-1]]
    singles = {c: recipe_of(first, lambda g, c=c: c) for c in codecs_of(first)}
    if a.feedback:
        singles.update({c + " with feedback": r + MARK for c, r in list(singles.items())
                        if b.takes_feedback(c)})
    bits = {u["codec"]: u["bits"] for u in first["uniform"]}
    chosen = {k: recipe_of(v, lambda g: g["codec"]) + MARK * (k[0] == FEEDBACK)
              for k, v in advice.items() if v}
    b.judge(list(singles.values()) + list(chosen.values()), a.judge)
    result = {"model": os.path.relpath(a.model, os.path.join(HERE, "..")), "calibrate": a.calibrate,
              "alpha_rows": a.alpha_rows or a.calibrate, "judge": a.judge, "command": " ".join(sys.argv),
              "source_perplexity": b.source, "alpha": cal["weights"], "singles": [],
              "budgets": []}
    for c, r in singles.items():
        result["singles"].append({"codec": c, "bits": bits[c.split(" ")[0]], **figures(b.judge([r], a.judge)[0])})
    for x in budgets:
        row = {"bits": x, "methods": {}}
        fit = [s for s in result["singles"] if s["bits"] <= x]
        row["single"] = min(fit, key=lambda s: s["kl"]) if fit else None
        row["single_perplexity"] = min(fit, key=lambda s: s["perplexity"]) if fit else None
        for m in METHODS:
            if (m, x) in chosen:
                row["methods"][m] = {"bits": advice[m, x]["total"]["bits"],
                                     "predicted": advice[m, x]["total"]["t2"],
                                     "groups": {g["name"]: g["codec"] for g in advice[m, x]["groups"]},
                                     **figures(b.judge([chosen[m, x]], a.judge)[0])}
        result["budgets"].append(row)
    result["random"] = []
    save(result)
    if a.torch:  # the same recipe, by kerf alone
        last = chosen[METHODS[-1], 5.0 if 5.0 in budgets else budgets[-1]]
        theirs, ours = b.run_kerf([last], a.judge), b.judge([last], a.judge)[0]
        result["kerf eval"] = {"source_perplexity": theirs["source"]["perplexity"],
                               **figures(theirs["candidates"][0])}
        result["torch"] = {"source_perplexity": b.source, **figures(ours)}
        save(result)
    rank_random(b, advice, budgets[-1], codecs_of(first), result["random"], lambda: save(result))
    return result


def rank_random(b, advice, budget, codecs, out, save):
    """Two kinds of recipes: any format per group, and formats of 4 to 5 bits alone."""
    chance = random.Random(1)
    first = advice["flat", budget]
    small = [c for c in codecs if next(u["bits"] for u in first["uniform"] if u["codec"] == c) < 5]
    rows = b.a.judge_random or b.a.judge
    for kind, pool in () if not b.a.random else (("all formats", codecs), ("formats below 5 bits", small)):
        recipes = [recipe_of(first, lambda g: chance.choice(pool)) for _ in range(b.a.random)]
        kl = [m["kl"] for m in b.judge(recipes, rows)]
        row = {"kind": kind, "recipes": len(recipes), "rows": rows, "kl_least": min(kl),
               "kl_most": max(kl), "correlation": {}}
        for m in METHODS:
            if m == FEEDBACK:
                kl = [m["kl"] for m in b.judge([r + MARK for r in recipes], rows)]
            guess = [predicted(advice[m, budget], r) for r in recipes]
            row["correlation"][m] = rank_correlation(guess, kl)
            row.setdefault("ratio", {})[m] = sum(kl) / sum(guess)
        out.append(row)
        save()


def closed(row, method, key, source):
    flat, own = row["methods"]["flat"], row["methods"].get(method)
    zero = source if key == "perplexity" else 0
    return None if own is None else 1 - (own[key] - zero) / (flat[key] - zero)


def page(r):
    source = r["source_perplexity"]
    lines = []
    METHODS[4:] = [m for m in (GRAM, FEEDBACK) if any(m in row["methods"] for row in r["budgets"])]
    for key, digits in ("perplexity", 4), ("kl", 5):
        lines += [f"| bits | best single format | {' | '.join(METHODS)} |",
                  "|---:" * (len(METHODS) + 2) + "|"]
        for row in r["budgets"]:
            s = row["single" if key == "kl" else "single_perplexity"]
            cells = [f"{row['bits']:g}", f"{s['codec']} {s[key]:.{digits}f}" if s else ""]
            for m in METHODS:
                own = row["methods"].get(m)
                share = closed(row, m, key, source)
                cells.append("" if own is None else f"{own[key]:.{digits}f}" +
                             (f" ({100 * share:+.0f} %)" if m != "flat" else ""))
            lines.append("| " + " | ".join(cells) + " |")
        means = []
        for m in METHODS[1:]:
            x = [closed(row, m, key, source) for row in r["budgets"] if row["bits"] <= 5.5]
            x = [v for v in x if v is not None]
            means.append(f"{m} {100 * sum(x) / len(x):+.1f} %")
        lines += ["", f"Of flat's gap in {'KL' if key == 'kl' else key} closed, mean up to 5.5 bits: " +
                  ", ".join(means) + ".", ""]
    for row in r["random"]:
        lines.append(f"{row['recipes']} random recipes of {row['kind']} (KL {row['kl_least']:.4f} to "
                     f"{row['kl_most']:.4f}): rank correlation of predicted and measured KL: " +
                     ", ".join(f"{m} {row['correlation'][m]:.3f}" for m in METHODS) + ".")
    return "\n".join([f"{r['model']}: calibrated on rows {r['calibrate']}, judged on {r['judge']}; "
                      f"perplexity of the source {source:.4f}.", ""] + lines) + "\n"


def main():
    a = arguments()
    base = os.path.join(HERE, "results", f"advice-calibrated-{a.name}")

    def save(result):
        with open(base + ".json.new", "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
        os.replace(base + ".json.new", base + ".json")

    if not a.table:
        with tempfile.TemporaryDirectory() as work:
            if a.work:
                os.makedirs(a.work, exist_ok=True)
            save(measure(Bench(a, a.work or work), save))
    with open(base + ".json") as f:
        text = page(json.load(f))
    with open(base + ".md", "w") as f:
        f.write(text)
    print(text)


main()

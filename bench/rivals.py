#!/usr/bin/env python3
"""Runs evalrun and the harnesses it is compared with on the same predictions, the
same images and the same machine, in alternating runs, and says what each took.

Needs Docker, an evalrun binary (make build), and for the official harness either
the package registry or an environment it is already installed in. What is not
installed is said and left out.

  bench/rivals.py -d verified -i 'sympy__sympy-2*' --evalrun-arg=--repo-mirror=mirrors
  bench/rivals.py -d demo-run/demo.jsonl -i evalrun-demo__textkit-1 --workers 1,2 --rounds 3 \\
      --evalrun-arg=--repo-mirror=demo-run/repositories --evalrun-arg=--images=build
  bench/rivals.py … --swe-bench-fast swe-bench-fast/swe-bench-fast
  bench/rivals.py … --also 'other=other-harness --dataset {rows} --predictions {predictions} --workers {workers}'
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

OFFICIAL = "5.0.2"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-d", "--dataset", required=True, help="as evalrun takes it")
    p.add_argument("-i", "--instances", action="append", default=[], help="as evalrun takes it; may be repeated")
    p.add_argument("--evalrun", default="bin/evalrun")
    p.add_argument("--evalrun-arg", action="append", default=[], help="passed to evalrun; may be repeated")
    p.add_argument("--workers", default="1,2", help="numbers of workers, separated by commas")
    p.add_argument("--rounds", type=int, default=3, help="runs of each, in turn")
    p.add_argument("--out", default="bench-out", help="folder for everything that is written; made anew")
    p.add_argument("--venv", default="", help="environment with swebench; default: one of its own below --out")
    p.add_argument("--no-install", action="store_true", help="take swebench only if it is installed")
    p.add_argument("--swe-bench-fast", default="swe-bench-fast", metavar="BINARY", help="the Go harness of that name, if it has been built")
    p.add_argument("--also", action="append", default=[], metavar="NAME=COMMAND",
                   help="another harness, {rows}, {predictions} and {workers} are filled in, what it resolved is not known")
    a = p.parse_args()

    out = pathlib.Path(a.out).resolve()
    venv = pathlib.Path(a.venv).resolve() if a.venv else out / "venv"
    for old in ("rows.json", "work"):
        remove(out / old)
    out.mkdir(parents=True, exist_ok=True)
    evalrun = str(pathlib.Path(a.evalrun).resolve())
    arguments = ["-d", a.dataset] + [x for i in a.instances for x in ("-i", i)]

    # Tests are cut short: it is the images that are wanted, and their digests.
    print("warming up: evalrun makes the images, once", file=sys.stderr)
    warm = run_evalrun(evalrun, arguments + a.evalrun_arg + ["--timeout", "1s"], out / "work" / "warm", os.cpu_count())
    if not warm["instances"]:
        sys.exit(f"evalrun graded nothing: {warm['log']}")
    rows = rows_for_official(evalrun, arguments, list(warm["images"]))
    (out / "rows.json").write_text(json.dumps(rows))
    gold = [{"instance_id": r["instance_id"], "model_name_or_path": "gold", "model_patch": r["patch"]} for r in rows]
    (out / "gold.jsonl").write_text("".join(json.dumps(g) + "\n" for g in gold))
    tags = tag(warm["images"])

    contenders = {"evalrun": lambda dir, w: run_evalrun(evalrun, arguments + a.evalrun_arg, dir, w)}
    python = official(venv, a.no_install)
    if python:
        contenders[f"swebench {OFFICIAL}"] = lambda dir, w: run_official(python, out / "rows.json", dir, w, len(rows))
    go = shutil.which(a.swe_bench_fast)
    if go:
        contenders["swe-bench-fast"] = lambda dir, w: run_go(str(pathlib.Path(go).resolve()), out, dir, w, len(rows))
    else:
        print("swe-bench-fast is NOT here: its column is missing", file=sys.stderr)
    for other in a.also:
        name, _, command = other.partition("=")
        if not shutil.which(shlex.split(command)[0]):
            print(f"{name} is NOT installed: its column is missing", file=sys.stderr)
            continue
        contenders[name] = lambda dir, w, command=command: run_other(command, out, dir, w, len(rows))

    results = []
    try:
        for workers in map(int, a.workers.split(",")):
            for round in range(a.rounds):
                # Each goes first in turn, so that none has the warmer caches.
                names = list(contenders)
                for name in names[round % len(names):] + names[:round % len(names)]:
                    before = leftovers(warm["images"].values())
                    with Commands() as commands:
                        r = contenders[name](out / "work" / f"{name.split()[0]}-{workers}-{round}", workers)
                    if r["each"] is None:
                        r["each"], r["seen"] = commands.longest(), True
                    compare(r, workers)
                    r.update(name=name, workers=workers, round=round, left=leftovers(warm["images"].values()) - before, load=os.getloadavg()[0])
                    results.append(r)
                    print(f"{name}, {workers} workers, round {round + 1}: {r['wall']:.1f} s wall, {r['tests']:.1f} s tests, {r['resolved']} of {r['instances']} resolved, load {r['load']:.1f}", file=sys.stderr)
    finally:
        for t in tags:
            subprocess.run(["docker", "rmi", t], capture_output=True)
    (out / "results.json").write_text(json.dumps(results, indent=1))
    show(results)


def show(results):
    print("| | workers | wall | tests themselves | beyond them, per instance | above the lower bound | processor, client | memory, client | resolved | left over |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for workers in sorted({r["workers"] for r in results}):
        for name in dict.fromkeys(r["name"] for r in results):
            of = [r for r in results if r["name"] == name and r["workers"] == workers]
            median = lambda key: statistics.median(r[key] for r in of)
            known = of[0]["resolved"] >= 0
            tests, past, above = (f"{median('tests'):.1f} s", f"{median('beyond'):.2f} s", f"{median('above') * 100:+.1f} %") if known else ("?", "?", "?")
            if of[0].get("seen"):
                tests += " (by the daemon)"
            resolved = f"{of[0]['resolved']} of {of[0]['instances']}" if known else "?"
            print(f"| {name} | {workers} | {median('wall'):.1f} s | {tests} | {past} | {above} | {median('cpu'):.1f} s | {median('memory') / 2**20:.0f} MiB "
                  f"| {resolved} | {max(r['left'] for r in of)} containers |")
    print(f"\nMedians of {max(r['round'] for r in results) + 1}; load average {min(r['load'] for r in results):.1f} to {max(r['load'] for r in results):.1f}, {os.cpu_count()} processors.")


class Commands:
    """What the daemon tells of commands in containers while the block runs: for
    harnesses that do not tell how long tests took."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile("w+")
        self.events = subprocess.Popen(["docker", "events", "--filter", "type=container", "--format", "{{json .}}"], stdout=self.file)
        return self

    def __exit__(self, *_):
        time.sleep(0.5)  # the last events are still on their way
        self.events.terminate()
        self.events.wait()
        self.file.seek(0)
        self.lines = self.file.read().splitlines()

    def longest(self):
        """Seconds of the longest command of each container."""
        began, longest = {}, {}
        for event in map(json.loads, self.lines):
            action, execution = event["Action"], event["Actor"]["Attributes"].get("execID")
            if action.startswith("exec_start"):
                began[execution] = event["timeNano"]
            elif action == "exec_die" and execution in began:
                took = (event["timeNano"] - began[execution]) / 1e9
                longest[event["Actor"]["ID"]] = max(took, longest.get(event["Actor"]["ID"], 0))
        return list(longest.values())


def timed(command, dir, log):
    """Runs a command; wall clock, processor time and peak memory of it and its children."""
    dir.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with open(log, "w") as f:
        child = subprocess.Popen([str(c) for c in command], cwd=dir, stdout=f, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return {"wall": time.monotonic() - start, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024, "status": child.returncode, "log": str(log)}


def compare(r, workers):
    """Adds what a worker spent on an instance beyond its tests (waiting, starting, applying,
    grading), and by how much the wall is above the least that these tests can take."""
    n = max(r["instances"], 1)
    r["tests"] = sum(r["each"])
    r["beyond"] = (r["wall"] * min(workers, n) - r["tests"]) / n
    bound = max(max(r["each"], default=0), r["tests"] / workers)
    r["above"] = r["wall"] / bound - 1 if bound else 0


def run_evalrun(binary, arguments, dir, workers):
    remove(dir)
    # Paths in the arguments are meant from where this was called.
    r = timed([binary, "run", "-p", "gold", "--run-id", "bench", "-j", workers, "--out", dir, "--show", "none", "--no-cache", "--verify", "none", *arguments],
              pathlib.Path.cwd(), prepare(dir) / "output.log")
    r["each"], r["resolved"], r["images"] = [], 0, {}
    for file in dir.glob("logs/run_evaluation/bench/*/*/attempt.json"):
        attempt = json.loads(file.read_text())
        r["each"].append(sum(p["seconds"] for p in attempt.get("phases", []) if p["name"] in ("setup", "build", "test", "eval")))
        r["resolved"] += attempt["outcome"] == "resolved"
        if attempt.get("image_digest"):
            r["images"][attempt["instance_id"]] = attempt["image_digest"]
    r["instances"] = len(r["each"])
    return r


def run_official(python, rows, dir, workers, n):
    remove(dir)
    r = timed([python, "-m", "swebench.harness.run_evaluation", "-d", rows, "-s", "test", "-p", "gold", "-id", "bench", "--max_workers", workers],
              prepare(dir), dir / "output.log")
    r["each"], r["resolved"], r["instances"] = [], 0, n
    for file in dir.glob("logs/run_evaluation/bench/*/*/run_instance.log"):
        for seconds in re.findall(r"Test runtime: ([\d_.]+) seconds", file.read_text()):
            r["each"].append(float(seconds.replace("_", "")))
    for file in dir.glob("logs/run_evaluation/bench/*/*/report.json"):
        r["resolved"] += any(v.get("resolved") for v in json.loads(file.read_text()).values())
    return r


def run_go(binary, out, dir, workers, n):
    """swe-bench-fast writes one report, in which test time and all else are one."""
    remove(dir)
    r = timed([binary, "run", "-dataset", out / "rows.json", "-predictions", out / "gold.jsonl", "-workers", workers, "-timeout", 1800,
               "-run-id", "bench", "-output", dir / "report.json"], prepare(dir), dir / "output.log")
    report = json.loads((dir / "report.json").read_text()) if (dir / "report.json").exists() else {"summary": {"resolved": 0}}
    r["each"], r["resolved"], r["instances"] = None, report["summary"]["resolved"], n
    return r


def run_other(command, out, dir, workers, n):
    remove(dir)
    filled = command.format(rows=out / "rows.json", predictions=out / "gold.jsonl", workers=workers)
    r = timed(shlex.split(filled), prepare(dir), dir / "output.log")
    r["each"], r["resolved"], r["instances"] = [], -1, n
    return r


def rows_for_official(evalrun, arguments, ids):
    """Rows as release 5 reads them: with the image, the script and the parser."""
    text = subprocess.run([evalrun, "dataset", "show", *arguments], check=True, capture_output=True, text=True).stdout
    rows, decoder, at = [], json.JSONDecoder(), 0
    while at < len(text):
        one, at = decoder.raw_decode(text, at)
        while at < len(text) and text[at].isspace():
            at += 1
        row, evaluation = one["row"], one["recipe"]["evaluation"]
        if row["ID"] not in ids:
            continue
        rows.append({
            "instance_id": row["ID"], "repo": row["Repo"], "version": row["Version"], "base_commit": row["BaseCommit"], "patch": row["Patch"],
            "test_patch": row["TestPatch"], "problem_statement": row["ProblemStatement"], "hints_text": row["HintsText"], "created_at": row["CreatedAt"],
            "environment_setup_commit": row["EnvironmentSetupCommit"], "FAIL_TO_PASS": json.dumps(row["FailToPass"]), "PASS_TO_PASS": json.dumps(row["PassToPass"] or []),
            "image": image_name(row["ID"]), "eval_script": evaluation["script"], "log_parser": evaluation["log_parser"], "eval_type": evaluation.get("eval_type") or "pass_and_fail",
        })
    return rows


def image_name(instance):
    return f"swebench/sweb.eval.x86_64.{instance.lower().replace('__', '_1776_')}:latest"


def go_image_name(instance):
    return f"swe-bench-instance:{instance.lower().replace('/', '-').replace('__', '-')}"


def tag(images):
    """Gives our images the names the others look for; only new ones, which are taken away at the end."""
    made = []
    for name, digest in [(of(instance), digest) for instance, digest in images.items() for of in (image_name, go_image_name)]:
        have = subprocess.run(["docker", "image", "inspect", "-f", "{{.Id}}", name], capture_output=True, text=True).stdout.strip()
        if have and have != digest:
            sys.exit(f"there is another image called {name}: the comparison needs the same one")
        if not have:
            subprocess.run(["docker", "tag", digest, name], check=True)
            made.append(name)
    return made


def official(venv, no_install):
    """The interpreter that has swebench of the right release, or None, which is said."""
    python = venv / "bin" / "python"
    installed = lambda: python.exists() and subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('swebench'))"], capture_output=True, text=True).stdout.strip() == OFFICIAL
    if not installed() and not no_install:
        print(f"installing swebench {OFFICIAL} from the package index into {venv}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"swebench=={OFFICIAL}"])
    if installed():
        return python
    print(f"swebench {OFFICIAL} is NOT installed: its column is missing", file=sys.stderr)
    return None


def leftovers(images):
    """Containers there are of these images; what a run leaves is the difference."""
    of = [x for digest in images for x in ("--filter", f"ancestor={digest}")]
    return len(subprocess.run(["docker", "ps", "-aq", *of], check=True, capture_output=True, text=True).stdout.split())


def prepare(dir):
    dir.mkdir(parents=True, exist_ok=True)
    return dir


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


if __name__ == "__main__":
    main()

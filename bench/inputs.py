#!/usr/bin/env python3
"""Makes the inputs of the measurements in docs/performance.md that no dataset has, the
same for everyone:

  bench/inputs.py big DIR    a run called big: 10 models on 2,294 instances
  bench/inputs.py logs DIR   2,294 logs of 130 KB with their rows: rows.jsonl, logs/, logs.jsonl, preds.jsonl
  bench/inputs.py huge DIR   huge.log, a Django log of 1.07 GB, its row in rows.jsonl, and line.log, as much in one line

Needs nothing but Python, and 1.2 GB, 600 MB and 2.2 GB of disk.
"""
import argparse
import hashlib
import json
import pathlib

INSTANCES = 2294
START, END, EXIT = "+ : '>>>>> Start Test Output'\n", "+ : '>>>>> End Test Output'\n", ">>>>> Test Exit Code: 0\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["big", "logs", "huge"])
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--instances", type=int, default=INSTANCES, help="fewer, to try it")
    p.add_argument("--bytes", type=int, default=1_070_000_000, help="of huge.log and line.log")
    a = p.parse_args()
    a.dir.mkdir(parents=True, exist_ok=True)
    {"big": big, "logs": logs, "huge": huge}[a.what](a)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def big(a):
    """A run as evalrun writes it: a patch of 2 KB, a log of 29 KB and 101 tests each."""
    models = [f"model-{m}" for m in range(10)]
    ids = [f"owner{n % 12}__name-{n}" for n in range(a.instances)]
    run = a.dir / "logs" / "run_evaluation" / "big"
    write(run / "run.json", json.dumps({
        "schema_version": 1, "run_id": "big", "created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T01:00:00Z",
        "dataset": {"name": "rows.jsonl", "split": "test", "sha256": "0" * 64}, "predictions": [], "models": models,
        "instances": len(ids), "evalrun": "bench", "rules": "swebench-5", "engine": {"name": "docker"}, "kernel": "", "platform": "linux/amd64",
        "limits": {}, "network": "none (verified)", "workers": 2, "instance_ids": ids, "image_digests": {}, "deviations": [],
    }, indent=2))
    tests = [f"tests/unit/test_module_{k % 7}.py::TestThings::test_that_it_does_what_it_should[{k}]" for k in range(100)]
    noise = "tests/test_something.py::test_number_one PASSED   [ 12%]\n" * 510
    for m, model in enumerate(models):
        for n, name in enumerate(ids):
            files = run / model / name
            wanted, resolved = f"tests/test_a.py::test_{n}", (n + m) % 3 == 0
            patch = diff(f"package/module_{n % 40}.py", n)
            status = "PASSED" if resolved else "FAILED"
            log = START + noise + f"{status} {wanted}\n" + END + EXIT
            verdict = {
                "resolved": resolved, "found": True, "rules": "swebench-5",
                "tests_status": {
                    "FAIL_TO_PASS": {"success": [wanted] if resolved else [], "failure": [] if resolved else [wanted]},
                    "PASS_TO_PASS": {"success": tests, "failure": []},
                    "FAIL_TO_FAIL": {"success": [], "failure": []}, "PASS_TO_FAIL": {"success": [], "failure": []},
                },
            }
            write(files / "patch.diff", patch)
            write(files / "test_output.txt", log)
            write(files / "attempt.json", json.dumps({
                "schema_version": 1, "instance_id": name, "model_name_or_path": model, "repo": name.split("-")[0].replace("__", "/"), "run_id": "big",
                "key": hashlib.sha256(f"{model} {name}".encode()).hexdigest(), "outcome": "resolved" if resolved else "unresolved", "verdict": verdict,
                "rules": "swebench-5", "log_parser": "parse_log_pytest",
                "patch": {"sha256": hashlib.sha256(patch.encode()).hexdigest(), "bytes": len(patch), "files": [f"package/module_{n % 40}.py"]},
                "phases": [{"name": "test", "exit_code": 0 if resolved else 1, "seconds": 1 + n % 60, "output_bytes": len(log)}],
                "usage": {"oom_kills": 0}, "limits": {}, "start": "2026-01-01T00:00:00Z", "seconds": 2 + n % 60,
            }))


def diff(path, n):
    """A patch of 2 KB that is like no other."""
    lines = "".join(f"+    value_{n}_{k} = compute(argument, other=[{k}, {n}])\n" for k in range(40))
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,1 +1,41 @@\n line\n{lines}"


def row(name, repo, version, fail, keep):
    return {
        "instance_id": name, "repo": repo, "version": version, "base_commit": f"{hash_of(name):040x}",
        "patch": diff("package/module.py", 0), "test_patch": diff("tests/test_a.py", 1), "problem_statement": "What is wrong. " * 100, "hints_text": "",
        "created_at": "2022-01-01T00:00:00Z", "environment_setup_commit": "0" * 40, "FAIL_TO_PASS": json.dumps(fail), "PASS_TO_PASS": json.dumps(keep),
    }


def hash_of(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:39], 16)


def logs(a):
    """Stored logs of one model, in the official folders and as lines."""
    with open(a.dir / "rows.jsonl", "w") as rows, open(a.dir / "logs.jsonl", "w") as lines, open(a.dir / "preds.jsonl", "w") as preds:
        for n in range(a.instances):
            name = f"astropy__astropy-{n + 1}"
            tests, text, size = [], [], 0
            while size < 129_500:
                k = len(tests)
                tests.append(f"astropy/module_{k % 9}/tests/test_{n % 20}.py::TestClass::test_method_{k}[param]")
                text.append(f'  File "/testbed/astropy/module.py", line {k}, in function\n    value = compute(argument, other=[1, 2, {n}])\nPASSED {tests[-1]}\n')
                size += len(text[-1])
            log = START + "".join(text) + END + EXIT
            rows.write(json.dumps(row(name, "astropy/astropy", "5.0", tests[:2], tests[2:])) + "\n")
            lines.write(json.dumps({"instance_id": name, "log": log}) + "\n")
            preds.write(json.dumps({"instance_id": name, "model_name_or_path": "m", "model_patch": diff("astropy/module.py", n)}) + "\n")
            files = a.dir / "logs" / "run_evaluation" / "bench" / "m" / name
            write(files / "test_output.txt", log)
            write(files / "patch.diff", diff("astropy/module.py", n))


def huge(a):
    """One log that no memory should have to hold."""
    tests = [f"test_{k} (app.tests_{k % 50}.Case{k % 400})" for k in range(20_000)]
    block = "".join(f"{t} ... ok\n" for t in tests)
    noise = "DEBUG query took 0.001 s: SELECT * FROM app_thing WHERE id = 1 AND name LIKE 'something'\n" * 100_000
    with open(a.dir / "huge.log", "w") as f:
        size = f.write(START + block)
        while size < a.bytes:
            size += f.write(noise[: a.bytes - size])
        f.write("\n" + END + EXIT)
    with open(a.dir / "line.log", "w") as f:
        size = f.write(START)
        while size < a.bytes:
            size += f.write(("x" * 1_000_000)[: a.bytes - size])
        f.write("\n" + END + EXIT)
    write(a.dir / "rows.jsonl", json.dumps(row("django__django-1", "django/django", "4.0", tests[:2], tests[2:])) + "\n")


if __name__ == "__main__":
    main()

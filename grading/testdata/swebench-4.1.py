"""Writes swebench-4.1.tsv.gz: what release 4.1.0 of the official harness says of the
reference logs, one line each. It needs that release:

    python3 -m venv venv && venv/bin/pip install swebench==4.1.0 pyarrow
    venv/bin/python grading/testdata/swebench-4.1.py ../shared grading/testdata/swebench-4.1.tsv.gz

Columns: source, line in it, dataset whose row was used (- is none), instance, found,
resolved, number of statuses, digest of them, digest of the four lists of tests.
"""

import gzip
import hashlib
import io
import json
import sys
import tempfile
from types import SimpleNamespace

import pyarrow.parquet as parquet
from swebench.harness import grading
from swebench.harness.constants import FAIL_ONLY_REPOS, EvalType
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER

shared, out = sys.argv[1:]
DATASETS = {  # in the order in which a row is looked for
    "SWE-bench_Verified_test": "SWE-bench_Verified.test.parquet",
    "SWE-bench_Lite_test": "SWE-bench_Lite.test.parquet",
    "SWE-bench_dev": "SWE-bench.dev.parquet",
    "SWE-bench_Multilingual_test": "SWE-bench_Multilingual.test.parquet",
    "SWE-bench_Multimodal_dev": "SWE-bench_Multimodal.dev.parquet",
}


def tests(value):
    return json.loads(value) if isinstance(value, str) else list(value or [])


def read(name):
    rows = {}
    for row in parquet.read_table(f"{shared}/data/datasets/{name}").to_pylist():
        row["F2P"], row["P2P"] = tests(row["FAIL_TO_PASS"]), tests(row["PASS_TO_PASS"])
        rows[row["instance_id"]] = row
    return rows


rows = {name: read(file) for name, file in DATASETS.items()}


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def row_for(log):
    if "dataset" in log:
        return log["dataset"], rows[log["dataset"]][log["instance_id"]]
    report = log["expected"].get("report_current_labels")
    for name in DATASETS:
        row = rows[name].get(log["instance_id"])
        if row is None:
            continue
        if report is None:
            return name, row
        both = [sorted(report[k]["success"] + report[k]["failure"]) for k in ("FAIL_TO_PASS", "PASS_TO_PASS")]
        if both == [sorted(row["F2P"]), sorted(row["P2P"])]:
            return name, row
    owner, rest = log["instance_id"].split("__")
    return "-", {"repo": owner + "/" + rest.rsplit("-", 1)[0], "version": "", "F2P": [], "P2P": []}


def answer(log, whole):
    name, row = row_for(log)
    spec = SimpleNamespace(instance_id=log["instance_id"], repo=row["repo"], version=row["version"])
    if row["repo"] not in MAP_REPO_TO_PARSER:
        return None
    if whole:  # logs without markers: the parser alone
        statuses, found = MAP_REPO_TO_PARSER[row["repo"]](log["log"], spec), True
    else:
        with tempfile.NamedTemporaryFile("w", newline="", encoding="utf-8") as file:
            file.write(log["log"])
            file.flush()
            try:
                statuses, found = grading.get_logs_eval(spec, file.name)
            except Exception as e:
                print(log["instance_id"], repr(e), file=sys.stderr)
                return None
    kind = EvalType.FAIL_ONLY if row["repo"] in FAIL_ONLY_REPOS else EvalType.PASS_AND_FAIL
    report = grading.get_eval_tests_report(statuses, {"FAIL_TO_PASS": row["F2P"], "PASS_TO_PASS": row["P2P"]}, eval_type=kind)
    resolved = found and grading.get_resolution_status(report) == grading.ResolvedStatus.FULL.value
    lists = [t for key in ("FAIL_TO_PASS", "PASS_TO_PASS") for side in ("success", "failure") for t in ["#"] + report[key][side]]
    return [name, log["instance_id"], found, resolved, len(statuses), digest(sorted(k + "\0" + v for k, v in statuses.items())), digest(lists)]


text = io.StringIO()
for source, whole in (("synthetic", False), ("real-logs", False), ("real-logs-2024", True)):
    with gzip.open(f"{shared}/parity/{source}.jsonl.gz", "rt", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            log = json.loads(line)
            if log.get("encoding") == "base64" or whole and not log["expected"]["found"]:
                continue
            got = answer(log, whole)
            if got:
                print(source, number, *got, sep="\t", file=text)
with open(out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
    file.write(text.getvalue().encode())

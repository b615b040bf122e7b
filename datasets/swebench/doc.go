// Package swebench holds what SWE-bench rows leave unsaid. A classic row names
// a repository and a version; which interpreter, packages, install step and
// test command belong to them is known only by the harness. This package knows
// it too, as data, and turns a row into a datasets.Recipe. For rows of the 5.x
// format, which bring their own evaluation script, it takes that script apart
// into the phases that are run one by one.
//
// It reads no files but its own embedded ones, starts nothing, and must not
// know about images, sandboxes or grading. It imports package datasets only.
//
// # Where the facts come from
//
// facts/*.json, one file per language, hold the specifications of the last
// classic release line (4.x) of the official harness, SWE-bench/SWE-bench: 84
// repositories and 1,207 versions. The field "source" of each file names the
// commit. Versions with equal specifications share one entry. Fields:
//
//	for_versions   the versions an entry is for
//	version        interpreter or tool chain
//	packages       Python: "requirements.txt", "environment.yml", or arguments of conda create
//	pip_packages   Python: installed by pip afterwards
//	apt, pnpm      operating system packages; version of pnpm
//	cap_add        capabilities the tests need (browsers)
//	pre_install, install, build
//	eval_commands  Python: first lines of the evaluation script
//	test           test command, one line or several
//	cargo_lock     Rust: id of a text in cargo-locks.json.gz, written to Cargo.lock before the install
//
// and per repository log_parser, fail_only, requirement_files and
// environment_files (paths in the repository, first that exists wins). Fields
// the official harness carries but never reads are left out.
//
// Not in the facts, because only code describes them: the test command builders
// of ten Multimodal test repositories (next, carbon, cypress, lighthouse,
// insomnia, openlayers, plotly.js, prettier, prism, scratch-gui). Rows of these
// without an evaluation script get the repository's whole test command.
package swebench

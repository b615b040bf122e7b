package screen

import (
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/internal/patch"
)

// Class says what kind of file a change is to. A file has one class by its path,
// and more by what it is.
type Class string

const (
	Source   Class = "source"
	Tests    Class = "tests"
	Build    Class = "build"
	Vendored Class = "vendored"
	Docs     Class = "documentation"

	// What decides how tests are found, run and reported, by framework.
	Pytest    Class = "pytest"
	Startup   Class = "python start-up" // run by every interpreter, before anything else
	JSRunner  Class = "javascript test runner"
	CargoConf Class = "cargo configuration"
	Rspec     Class = "rspec"
	PHPUnit   Class = "phpunit"
	Maven     Class = "java test runner"
	Shadow    Class = "shadows the test runner"        // a module named like the runner, found before it
	Overrides Class = "comes before the project's own" // found before the standard library, or before the Makefile
	GitConf   Class = "git configuration"
	Bytecode  Class = "bytecode"

	Binary     Class = "binary"
	Symlink    Class = "symbolic link"
	Submodule  Class = "submodule"
	Executable Class = "made executable"
)

// infrastructure are the classes of files that decide what is run as a test and
// what is said about it.
var infrastructure = []Class{Pytest, Startup, JSRunner, CargoConf, Rspec, PHPUnit, Maven, Shadow, Overrides, GitConf, Bytecode}

// Infrastructure reports whether the file is part of how tests are run.
func (f File) Infrastructure() bool { return slices.ContainsFunc(f.Classes, isInfrastructure) }

func isInfrastructure(c Class) bool { return slices.Contains(infrastructure, c) }

// pattern gives the class of the paths it matches; the first that does counts.
type pattern struct {
	class Class
	match *regexp.Regexp
}

// at makes a pattern of the end of a path: a folder or nothing before it.
func at(class Class, end string) pattern {
	return pattern{class, regexp.MustCompile(`(?:^|/)(?:` + end + `)$`)}
}

// early are modules of Python's standard library, and what test runners are made of:
// one at the root comes before them.
const early = `abc|aifc|argparse|array|ast|asynchat|asyncio|asyncore|audioop|base64|bdb|binascii|bisect|builtins|bz2|cProfile|calendar|cgi|cgitb|chunk|cmath|cmd|code|` +
	`codecs|codeop|collections|colorsys|compileall|concurrent|configparser|contextlib|contextvars|copy|copyreg|crypt|csv|ctypes|curses|dataclasses|datetime|` +
	`dbm|decimal|difflib|dis|distutils|email|ensurepip|enum|errno|faulthandler|fcntl|filecmp|fileinput|fnmatch|fractions|ftplib|functools|gc|genericpath|` +
	`getopt|getpass|gettext|glob|graphlib|grp|gzip|hashlib|heapq|hmac|html|http|imaplib|imghdr|imp|inspect|io|ipaddress|itertools|json|keyword|linecache|` +
	`locale|logging|lzma|mailbox|mailcap|marshal|math|mimetypes|mmap|modulefinder|multiprocessing|netrc|nis|nntplib|ntpath|nturl2path|numbers|opcode|` +
	`operator|optparse|os|ossaudiodev|pathlib|pdb|pickle|pickletools|pipes|pkgutil|platform|plistlib|poplib|posix|posixpath|pprint|profile|pstats|pty|pwd|` +
	`py_compile|pyclbr|pydoc|pydoc_data|pyexpat|queue|quopri|random|re|readline|reprlib|resource|rlcompleter|runpy|sched|secrets|select|selectors|shelve|` +
	`shlex|shutil|signal|smtpd|smtplib|sndhdr|socket|socketserver|spwd|sqlite3|sre_compile|sre_constants|sre_parse|ssl|stat|statistics|string|stringprep|` +
	`struct|subprocess|sunau|symtable|sys|sysconfig|syslog|tabnanny|tarfile|telnetlib|tempfile|termios|textwrap|threading|time|timeit|tkinter|token|` +
	`tokenize|tomllib|trace|tracemalloc|tty|turtle|types|typing|unicodedata|urllib|uu|uuid|warnings|wave|weakref|webbrowser|wsgiref|xdrlib|xml|xmlrpc|` +
	`zipapp|zipfile|zipimport|zlib|zoneinfo|attr|attrs|packaging|iniconfig|exceptiongroup|tomli|colorama|pygments|typing_extensions|more_itertools|wcwidth|` +
	`six|_hashlib|_socket|_json`

var patterns = []pattern{
	at(Bytecode, `.*\.py[co]|__pycache__/.*`),
	at(Startup, `(?:sitecustomize|usercustomize)\.py|.*\.pth|(?:sitecustomize|usercustomize)/__init__\.py|[^/]*\.(?:egg|dist)-info/entry_points\.txt`),
	at(GitConf, `\.gitattributes|\.gitmodules|\.mailmap|\.husky/.*|\.githooks/.*|\.pre-commit-config\.yaml`),
	{Shadow, regexp.MustCompile(`^(?:src/|lib/)?(?:_?pytest|unittest|pluggy|py|nose|django_test_runner|doctest|jest|mocha|vitest|rspec|minitest|importlib|_frozen_importlib|encodings|site|atexit|traceback)(?:\.py|/__init__\.py)$`)},
	{Shadow, regexp.MustCompile(`^(?:node_modules/(?:\.bin|jest[^/]*|@jest/[^/]*|mocha|vitest|@vitest/[^/]*|karma[^/]*|chai)/.*|vendor/(?:bin|phpunit|bundle/[^/]+/[^/]+/gems/rspec[^/]*)/.*)$`)},
	{Overrides, regexp.MustCompile(`^(?:(?:` + early + `)(?:\.py|/__init__\.py|\.(?:cpython-[^/]*\.)?so)|GNUmakefile|makefile)$`)},
	at(Pytest, `conftest\.py|pytest\.ini|\.pytest\.ini|\.?pytest\.toml|tox\.ini|\.coveragerc|noxfile\.py|pytest_[a-z_]*plugin\.py`),
	at(JSRunner, `(?:jest|vitest|vite|karma|ava|playwright|wallaby|nightwatch|cypress)[^/]*\.(?:config|conf|setup)\.[a-z.]+|\.mocharc(?:\.[a-z]+)?|\.taprc|\.ava[^/]*|test/mocha\.opts|jest[^/]*\.(?:js|json|ts)|setup-?tests?\.[jt]sx?|(?:scripts|build)/(?:test|jest)[^/]*\.[cm]?[jt]s`),
	at(CargoConf, `\.cargo/config(?:\.toml)?|rust-toolchain(?:\.toml)?|\.config/nextest\.toml`),
	at(Rspec, `\.rspec|spec/spec_helper\.rb|spec/rails_helper\.rb|test/test_helper\.rb|test/helper\.rb|\.simplecov`),
	at(PHPUnit, `phpunit[^/]*\.xml(?:\.dist)?|tests?/bootstrap\.php|pest\.php`),
	at(Maven, `surefire[^/]*\.xml|junit-platform\.properties|META-INF/services/org\.junit\..*|META-INF/services/org\.testng\..*|\.mvn/.*|gradle\.properties|init\.gradle`),
	{Vendored, regexp.MustCompile(`(?:^|/)(?:vendor|node_modules|third_party|_vendor|extern|bower_components)/`)},
	at(Tests, `(?:tests?|testing|__tests__|__mocks__|specs?|testsuite|test_suite|testdata|fixtures)/.*|test_[^/]*\.py|[^/]*_tests?\.(?:py|go|rb|rs|c|cc|cpp|exs)|tests?\.(?:py|rs)|[^/]*\.(?:test|spec)\.[cm]?[jt]sx?|[^/]*Tests?\.(?:java|php|kt|cs|scala)|[^/]*_spec\.rb|src/test/.*|[^/]*\.phpt`),
	at(Build, `setup\.py|setup\.cfg|pyproject\.toml|MANIFEST\.in|requirements[^/]*\.txt|environment\.ya?ml|Makefile|GNUmakefile|makefile|[^/]*\.mk|CMakeLists\.txt|[^/]*\.cmake|meson\.build|configure(?:\.ac)?|Makefile\.am|package(?:-lock)?\.json|yarn\.lock|pnpm-(?:lock|workspace)\.yaml|tsconfig[^/]*\.json|\.?babel(?:rc|\.config)[^/]*|webpack[^/]*|rollup[^/]*|Cargo\.(?:toml|lock)|build\.rs|go\.(?:mod|sum|work)|pom\.xml|[^/]*\.gradle(?:\.kts)?|gradlew|Gemfile(?:\.lock)?|[^/]*\.gemspec|Rakefile|composer\.(?:json|lock)|Dockerfile[^/]*|\.github/.*|\.gitlab-ci\.yml|\.travis\.yml|azure-pipelines\.yml|\.circleci/.*`),
	at(Docs, `[^/]*\.(?:md|rst|adoc)|docs?/.*|CHANGE[^/]*|NEWS[^/]*|README[^/]*|AUTHORS[^/]*|changelogs?/.*`),
}

func classOf(x expressions, name string) Class {
	if s := x.of(pathsProgram).read(name)[matching]; s != 0 {
		return patterns[bits.TrailingZeros64(uint64(s))].class
	}
	return Source
}

// classify gives the classes of a file, by the path after the patch and, where
// it is another, by the one before.
func classify(x expressions, f patch.File) []Class {
	classes := []Class{classOf(x, f.Path())}
	if classes[0] == Overrides && f.Old == f.Path() {
		classes[0] = Source // the project's own, and what comes behind it was never found
		if path.Ext(f.Path()) == "" {
			classes[0] = Build
		}
	}
	if f.Old != "" && f.Old != f.Path() && f.Kind != patch.Copy {
		if before := classOf(x, f.Old); before != classes[0] {
			classes = append(classes, before)
		}
	}
	add := func(is bool, c Class) {
		if is {
			classes = append(classes, c)
		}
	}
	add(f.Binary, Binary)
	add(f.Symlink, Symlink)
	add(f.Submodule, Submodule)
	add(f.NewMode == "100755" && f.OldMode != "100755" && f.OldMode != "", Executable)
	return classes
}

// generatedBinary are binary files patches bring for good reasons.
var generatedBinary = []string{".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".pdf", ".woff", ".woff2", ".ttf", ".mo", ".npy", ".npz", ".fits", ".gz", ".zip", ".db", ".sqlite", ".bin", ".dat"}

// file takes in what there is to say about a file as a whole.
func (r *draft) file(f patch.File, file File) {
	tests := ofTests(file.Classes)
	say := func(rule string, level Level, why func() string) {
		if r.takes(level, tests) {
			r.Findings = append(r.Findings, Finding{Rule: rule, Level: level, Path: file.Path, PatchLine: f.Line, Why: why()})
		}
	}
	for _, c := range file.Classes {
		switch {
		case isInfrastructure(c):
			say("infrastructure", levelOf(file.Action), func() string { return infrastructureWhy(c, f.Kind) + actionWords(file.Action) })
		case c == Binary && !slices.Contains(generatedBinary, strings.ToLower(path.Ext(file.Path))):
			say("binary", Suspicious, func() string { return "a binary file that cannot be read here" })
		case c == Symlink:
			say("symlink", Suspicious, func() string { return "a symbolic link to " + clip(f.Target) })
		case c == Submodule:
			say("submodule", Suspicious, func() string { return "pins another commit of a submodule" })
		case c == Vendored:
			say("vendored", Suspicious, func() string { return "changes code of others that the project carries" })
		}
	}
}

func infrastructureWhy(c Class, kind patch.Kind) string {
	switch c {
	case Shadow:
		return "stands where the test runner or the standard library is looked for"
	case Overrides:
		return "is found before the standard library, or before the project's own Makefile"
	case Startup:
		return "is run by every interpreter before anything else"
	case Bytecode:
		return "is run in place of the source it was made from"
	}
	return "decides how tests are run (" + string(c) + "), and the patch does this to it: " + string(kind)
}

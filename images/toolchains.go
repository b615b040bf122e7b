package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

// debianTools are the versions of tool chains other than Python's that come
// with each Debian suite.
var debianTools = map[string]map[string][]string{
	"java": {"bullseye": {"11", "17"}, "bookworm": {"17"}, "trixie": {"21", "25"}},
	"rust": {"bullseye": {"1.48"}, "bookworm": {"1.63"}, "trixie": {"1.85"}},
	"ruby": {"bullseye": {"2.7"}, "bookworm": {"3.1"}, "trixie": {"3.3"}},
	"php":  {"bullseye": {"7.4"}, "bookworm": {"8.2"}, "trixie": {"8.4"}},
}

// debianPackages are what a tool chain consists of; VERSION is put in.
var debianPackages = map[string][]string{
	"java": {"openjdk-VERSION-jdk-headless", "maven", "ant"},
	"rust": {"cargo", "rustc"},
	"ruby": {"ruby-full", "bundler"},
	"php":  {"php-cli", "php-xml", "php-mbstring", "php-zip", "php-gd", "php-gmp", "php-curl", "php-intl", "composer"},
}

// debianTool chooses the suite that has the wanted tool chain and the packages
// to install, for languages whose tool chains come from Debian. Go and Node are
// fetched as pinned packages of their own registries and are not asked for here.
func (r *Resolver) debianTool(source Source, e datasets.Environment) (Source, []string, string, error) {
	suites, known := debianTools[e.Language]
	if !known || source.Kind != "debian" {
		return source, nil, "", nil
	}
	choices := []string{source.Ref}
	if !r.BaseForced && e.Base == "" {
		choices = append(choices, slices.Sorted(maps.Keys(suites))...)
	}
	for _, suite := range choices {
		for _, version := range suites[suite] {
			if e.Version == "" || sameMinor(version, e.Version) || sameMinor(e.Version, version) {
				return Source{"debian", suite}, packagesOf(e.Language, version), "", nil
			}
		}
	}
	if !r.Nearest {
		return source, nil, "", fmt.Errorf("%s %s cannot be had: Debian has %s; accept the nearest with --python nearest (reported), or pull prebuilt images",
			e.Language, e.Version, describeTools(suites))
	}
	suite, version := nearestTool(choices, suites, e.Version)
	deviation := fmt.Sprintf("%s %s in place of the pinned %s", e.Language, version, e.Version)
	return Source{"debian", suite}, packagesOf(e.Language, version), deviation, nil
}

// nearestTool prefers the oldest one that is newer than what is wanted, and
// else the newest there is.
func nearestTool(choices []string, suites map[string][]string, want string) (suite, version string) {
	for _, s := range choices {
		for _, v := range suites[s] {
			newer, haveNewer := CompareVersions(v, want) > 0, version != "" && CompareVersions(version, want) > 0
			switch {
			case version == "",
				newer && !haveNewer,
				newer == haveNewer && newer && CompareVersions(v, version) < 0,
				newer == haveNewer && !newer && CompareVersions(v, version) > 0:
				suite, version = s, v
			}
		}
	}
	return suite, version
}

func packagesOf(language, version string) []string {
	var out []string
	for _, p := range debianPackages[language] {
		out = append(out, strings.ReplaceAll(p, "VERSION", version))
	}
	return out
}

func describeTools(suites map[string][]string) string {
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(suites)) {
		parts = append(parts, strings.Join(suites[s], ", ")+" ("+s+")")
	}
	return strings.Join(parts, ", ")
}

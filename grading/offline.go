package grading

import "strings"

// offlineSigns are what package tools print when they wanted to fetch something
// and there was no network: the image lacks what the tests need.
var offlineSigns = []string{
	"module lookup disabled by GOPROXY=off",          // go
	"dial tcp: lookup ",                              // go, and what is written in it
	"but attempting to use offline mode",             // maven
	"in offline mode and the artifact",               // maven
	"available for offline mode",                     // gradle
	"you may want to retry without the offline flag", // cargo, older: --offline
	"perhaps because the offline flag was used",      // cargo
	"ENOTCACHED",                                         // npm
	"Network is disabled",                                // composer
	"Could not reach host", "Could not fetch specs from", // bundler
	"Could not find a version that satisfies the requirement", // pip without an index
}

// OfflineSign returns the first line of a log that says something could not be
// fetched, or "". It is for logs in which no test ran: then the surroundings are
// to blame and not, or not only, the patch.
func OfflineSign(log string) string {
	for line := range strings.Lines(log) {
		for _, sign := range offlineSigns {
			if strings.Contains(line, sign) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

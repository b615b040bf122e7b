package logparse

import "strings"

// jekyll picks the framework by pull request: Jekyll's tests use two.
func jekyll(in Context, out *Result) lineParser {
	_, pull, _ := strings.Cut(in.InstanceID, "-")
	pull, _, _ = strings.Cut(pull, "-")
	switch pull {
	case "9141", "8047", "8167":
		return minitest(in, out)
	case "8761", "8771":
		return cucumber(in, out)
	}
	out.complain("instance %q: no test framework is known for this Jekyll instance", in.InstanceID)
	return eachLine(func(string) {})
}

package swebench

import (
	"regexp"
	"slices"
	"strings"
)

var (
	localeFile = regexp.MustCompile(`/etc/locale\.gen\b`)
	localeGen  = regexp.MustCompile(`^locale-gen\b`)
	aptOptions = map[string]bool{"-t": true, "-o": true, "-c": true}
)

// liftSystem takes what concerns the operating system out of a list of
// commands, so that it can be done once in a layer instances share: packages
// installed with apt, and making locales. rest is what remains.
//
// Some of the official commands are no valid shell ("upgrade && && apt-get
// install …"); cut at && they still say which packages are meant.
func liftSystem(commands []string) (rest, packages []string, locale bool) {
	for _, command := range commands {
		if strings.Contains(command, "\n") {
			rest = append(rest, command)
			continue
		}
		var kept []string
		changed := false
		for _, piece := range strings.Split(command, "&&") {
			names, isApt := aptPiece(strings.Fields(piece))
			isLocale := localeFile.MatchString(piece) || localeGen.MatchString(strings.TrimSpace(piece))
			switch {
			case isApt:
				packages = appendNew(packages, names...)
			case isLocale:
				locale = true
			case strings.TrimSpace(piece) == "":
			default:
				kept = append(kept, strings.TrimSpace(piece))
				continue
			}
			changed = true
		}
		if !changed {
			rest = append(rest, command)
		} else if len(kept) > 0 {
			rest = append(rest, strings.Join(kept, " && "))
		}
	}
	return rest, packages, locale
}

// aptPiece reads one command as a call of apt that updates, upgrades or
// installs, and returns what it installs.
func aptPiece(words []string) (packages []string, ok bool) {
	for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "sudo") {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "apt-get" && words[0] != "apt" {
		return nil, false
	}
	action := ""
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case strings.ContainsAny(w, "|;<>$`()"):
			return nil, false
		case aptOptions[w]:
			i++
		case strings.HasPrefix(w, "-"):
		case action == "":
			action = w
		default:
			packages = append(packages, w)
		}
	}
	return packages, slices.Contains([]string{"update", "upgrade", "install"}, action)
}

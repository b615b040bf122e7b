package grading

import (
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// AntScript is a build file that imports another one, and gives each of its <junit>
// tasks a formatter more: one that writes XML to files of this ending, beside
// whatever the build itself asks for. build is the text of the other file.
func AntScript(build []byte, file, ending string) ([]byte, error) {
	var target, folder string
	d := xml.NewDecoder(strings.NewReader(string(build)))
	for {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%s is no build file of ant: %w", file, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local != "project" {
			return nil, fmt.Errorf("%s is no build file of ant: it begins with <%s>", file, start.Name.Local)
		}
		target, folder = attribute(start, "default"), attribute(start, "basedir")
		break
	}
	if strings.Contains(folder, "$") {
		return nil, errors.New("the folder of " + file + " is known to ant alone")
	}
	if !path.IsAbs(folder) {
		folder = path.Join(path.Dir(file), folder)
	}
	attr := func(name, value string) string {
		if value == "" {
			return ""
		}
		var b strings.Builder
		xml.EscapeText(&b, []byte(value))
		return " " + name + `="` + b.String() + `"`
	}
	return []byte(`<project` + attr("default", target) + attr("basedir", folder) + `>
  <presetdef name="junit"><junit><formatter type="xml"` + attr("extension", ending) + `/></junit></presetdef>
  <import` + attr("file", file) + `/>
</project>
`), nil
}

var antTest = regexp.MustCompile(`^(.+)\(([\w.$]+)\)$`)

// antName is a test as reports call it; logs have what JUnit prints of it.
func antName(id string) (string, bool) {
	m := antTest.FindStringSubmatch(id)
	if m == nil {
		return "", false
	}
	return m[2] + "::" + m[1], true
}

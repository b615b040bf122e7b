package grading

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAntScript(t *testing.T) {
	for _, tt := range []struct {
		build, want, err string
	}{
		{`<!DOCTYPE project [<!ENTITY x SYSTEM "x.xml">]><!-- ours --><project name="a" default="dist" basedir=".."><target`,
			` default="dist" basedir="/"`, ""},
		{`<project/>`, ` basedir="/testbed"`, ""},
		{`<project default="a&quot;&lt;" basedir="/b">`, ` default="a&#34;&lt;" basedir="/b"`, ""},
		{`<project basedir="${here}">`, "", "the folder of /testbed/build.xml is known to ant alone"},
		{`<target/>`, "", "/testbed/build.xml is no build file of ant: it begins with <target>"},
		{``, "", "/testbed/build.xml is no build file of ant: EOF"},
	} {
		got, err := AntScript([]byte(tt.build), "/testbed/build.xml", ".n.xml")
		want, said := "", ""
		if tt.want != "" {
			want = "<project" + tt.want + ">\n  <presetdef name=\"junit\"><junit><formatter type=\"xml\" extension=\".n.xml\"/></junit></presetdef>\n" +
				"  <import file=\"/testbed/build.xml\"/>\n</project>\n"
		}
		if err != nil {
			said = err.Error()
		}
		if diff := cmp.Diff(want, string(got)); diff != "" || said != tt.err {
			t.Errorf("%s: %q (-want +got):\n%s", tt.build, said, diff)
		}
	}
}

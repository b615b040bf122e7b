package hub

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestChooseShards(t *testing.T) {
	tests := []struct {
		name       string
		files      string // separated by spaces
		split      string // [config/]split
		wantConfig string
		want       string
	}{
		{"data folder", "data/test-00000-of-00002.parquet data/test-00001-of-00002.parquet data/dev-00000-of-00001.parquet README.md",
			"test", "default", "data/test-00000-of-00002.parquet data/test-00001-of-00002.parquet"},
		{"fingerprints", "data/test-00000-of-00001-dc7a61f2c8e1c3d7.parquet data/dev-00000-of-00001-0123456789abcdef.parquet",
			"test", "default", "data/test-00000-of-00001-dc7a61f2c8e1c3d7.parquet"},
		{"whole file", "test.parquet dev.parquet", "test", "default", "test.parquet"},
		{"shards before a whole file", "test.parquet data/test-00000-of-00001.parquet", "test", "default", "data/test-00000-of-00001.parquet"},
		{"prefix, in natural order", "test-10.parquet test-9.parquet dev-1.parquet", "test", "default", "test-9.parquet test-10.parquet"},
		{"a split whose name begins alike", "test.parquet test-hard.parquet", "test", "default", "test.parquet"},
		{"and the other", "test.parquet test-hard.parquet", "test-hard", "default", "test-hard.parquet"},
		{"only configuration", "lite/test-00000-of-00001.parquet", "test", "lite", "lite/test-00000-of-00001.parquet"},
		{"default configuration", "lite/test-00000-of-00001.parquet default/test-00000-of-00001.parquet", "test", "default", "default/test-00000-of-00001.parquet"},
		{"configuration asked for", "lite/test.parquet full/test.parquet", "lite/test", "lite", "lite/test.parquet"},
		{"configuration below data", "data/lite/test.parquet data/full/test.parquet", "full/test", "full", "data/full/test.parquet"},
		{"converted layout", "default/test/0000.parquet default/test/0001.parquet default/dev/0000.parquet", "test", "default", "default/test/0000.parquet default/test/0001.parquet"},
		{"folder of a split", "test/part-2.parquet test/part-10.parquet", "test", "default", "test/part-2.parquet test/part-10.parquet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config, shards, err := chooseShards(entries(tt.files), nil, wanted(tt.split))
			if err != nil {
				t.Fatal(err)
			}
			if got := paths(shards); config != tt.wantConfig || got != tt.want {
				t.Errorf("got %s: %s\nwant %s: %s", config, got, tt.wantConfig, tt.want)
			}
		})
	}
}

func TestChooseShardsRefuses(t *testing.T) {
	tests := []struct {
		name, files, split string
		kind               error
		want               []string
	}{
		{"nothing", "", "test", errNoParquet, nil},
		{"other format", "test.jsonl data/train.json", "test", errNoParquet, nil},
		{"no such split", "data/test-00000-of-00001.parquet lite/dev.parquet", "train", ErrNotFound, []string{"no such split", "there are lite/dev, test"}},
		{"no such configuration", "lite/test.parquet full/test.parquet", "tiny/test", ErrNotFound, []string{"full/test, lite/test"}},
		{"several configurations", "lite/test.parquet full/test.parquet", "test", nil, []string{"full/test, lite/test"}},
		{"missing shards", "data/test-00001-of-00004.parquet data/test-00003-of-00004.parquet", "test", ErrCorrupt, []string{"2 of 4", "00000, 00002"}},
		{"two uploads", "data/test-00000-of-00001.parquet data/test-00000-of-00002.parquet data/test-00001-of-00002.parquet", "test", nil, []string{"two uploads"}},
		{"one shard twice", "data/test-00000-of-00001-aaaaaaaaaaaaaaaa.parquet data/test-00000-of-00001-bbbbbbbbbbbbbbbb.parquet", "test", nil, []string{"twice"}},
		{"beyond the last", "data/test-00000-of-00001.parquet data/test-00001-of-00001.parquet", "test", nil, []string{"beyond the last"}},
		{"a huge series", "data/test-00000-of-999999999.parquet", "test", ErrCorrupt, []string{"1 of 999999999"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := chooseShards(entries(tt.files), nil, wanted(tt.split))
			wantError(t, err, tt.kind, tt.want...)
		})
	}
}

func TestCardDecides(t *testing.T) {
	files := "data/test-00000-of-00001.parquet odd/a/b/x1.parquet odd/y.parquet lite/one.parquet rows.jsonl"
	tests := []struct {
		name, card, split string
		want              string
		err               string
	}{
		{"pattern", `{"configs":[{"config_name":"default","data_files":[{"split":"test","path":"odd/**"}]}]}`, "test", "odd/a/b/x1.parquet odd/y.parquet", ""},
		{"list of patterns", `{"configs":[{"config_name":"c","data_files":[{"split":"test","path":["odd/*.parquet","lite/one.parquet"]}]}]}`, "test", "lite/one.parquet odd/y.parquet", ""},
		{"data_dir", `{"configs":[{"config_name":"c","data_dir":"odd","data_files":[{"split":"test","path":"*.parquet"}]}]}`, "test", "odd/y.parquet", ""},
		{"preferred configuration", `{"configs":[{"config_name":"a","data_files":[{"split":"test","path":"odd/*"}]},{"config_name":"b","default":true,"data_files":[{"split":"test","path":"lite/*"}]}]}`, "test", "lite/one.parquet", ""},
		{"one pattern means train", `{"configs":[{"config_name":"a","data_files":"lite/*"}]}`, "train", "lite/one.parquet", ""},
		{"split it does not have", `{"configs":[{"config_name":"a","data_files":[{"split":"dev","path":"lite/*"}]}]}`, "test", "", "there are a/dev"},
		{"other format", `{"configs":[{"config_name":"a","data_files":[{"split":"test","path":"*.jsonl"}]}]}`, "test", "", errNoParquet.Error()},
		{"nothing about files", `{"license":"mit","configs":[{"config_name":"x"}]}`, "test", "data/test-00000-of-00001.parquet", ""},
		{"unknown shape", `{"configs":"x"}`, "test", "data/test-00000-of-00001.parquet", ""},
		{"no card", `null`, "test", "data/test-00000-of-00001.parquet", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info := &repoInfo{CardData: json.RawMessage(tt.card)}
			_, shards, err := chooseShards(entries(files), info.configs(), wanted(tt.split))
			if tt.err != "" {
				wantError(t, err, nil, tt.err)
				return
			}
			if got := paths(shards); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestMatchGlob(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"data/test-*", "data/test-00000-of-00001.parquet", true},
		{"data/test-*", "data/x/test-1.parquet", false},
		{"**/test-*", "test-1.parquet", true},
		{"**/test-*", "a/b/test-1.parquet", true},
		{"a/**", "a/b/c", true},
		{"a/**", "b/c", false},
		{"./a/*", "a/b", true},
		{"a/**/**/c", "a/c", true},
		{"[", "[", false},
		{"a/b/c", "a/b", false},
	}
	for _, tt := range tests {
		if got := matchGlob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("matchGlob(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

// Whatever a repository calls its files, a choice is made of its own Parquet
// files, each once and all of one split, or refused.
func FuzzChooseShards(f *testing.F) {
	f.Add("data/test-00000-of-00001.parquet test.parquet", "test", "")
	f.Add("default/test/0000.parquet x-1.parquet", "x", `{"configs":[{"config_name":"a","data_files":[{"split":"x","path":"**/*"}]}]}`)
	f.Fuzz(func(t *testing.T, files, split, card string) {
		if len(card) > 1000 || strings.Count(card, "**") > 3 {
			t.Skip()
		}
		info := &repoInfo{CardData: json.RawMessage(card)}
		_, shards, err := chooseShards(entries(files), info.configs(), wanted(split))
		if err != nil {
			return
		}
		if len(shards) == 0 {
			t.Error("nothing chosen, and no error")
		}
		all := strings.Fields(files)
		for i, s := range shards {
			if !slices.Contains(all, s.path) || !strings.HasSuffix(s.path, ".parquet") {
				t.Errorf("chose %q", s.path)
			}
			if i > 0 && shards[i-1].path == s.path && !hasTwice(all, s.path) {
				t.Errorf("chose %q twice", s.path)
			}
		}
	})
}

func hasTwice(list []string, name string) bool {
	i := slices.Index(list, name)
	return i >= 0 && slices.Contains(list[i+1:], name)
}

func TestNextPage(t *testing.T) {
	tests := []struct{ link, want string }{
		{`</api/x?cursor=2>; rel="next"`, "https://hub.example/api/x?cursor=2"},
		{`<https://hub.example/a>; rel="prev", <https://hub.example/b>; rel="next"`, "https://hub.example/b"},
		{`<https://other.example/b?c=d>;rel=next`, "https://hub.example/b?c=d"},
		{`<https://hub.example/a>; rel="prev"`, ""},
		{``, ""},
	}
	c := New(Options{Endpoint: "https://hub.example", CacheDir: t.TempDir()})
	for _, tt := range tests {
		u, err := c.nextPage(replyWithLink(t, c, tt.link))
		got := ""
		if u != nil {
			got = u.String()
		}
		if err != nil || got != tt.want {
			t.Errorf("nextPage(%s) = %q, %v; want %q", tt.link, got, err, tt.want)
		}
	}
	if _, err := c.nextPage(replyWithLink(t, c, "<%zz>; rel=next")); err == nil {
		t.Error("a next page that is no address is no error")
	}
}

func entries(files string) []entry {
	var list []entry
	for name := range strings.FieldsSeq(files) {
		list = append(list, entry{path: name, size: -1})
	}
	return list
}

func paths(shards []entry) string {
	var list []string
	for _, s := range shards {
		list = append(list, s.path)
	}
	return strings.Join(list, " ")
}

func wanted(split string) splitName {
	if config, split, found := strings.Cut(split, "/"); found {
		return splitName{config, split}
	}
	return splitName{"", split}
}

func replyWithLink(t *testing.T, c *Client, link string) *reply {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, c.endpoint.String()+"/api/start", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &reply{Response: &http.Response{Request: req, Header: http.Header{"Link": {link}}}}
}

package page_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// What a browser loads before it shows the chat for the first time, compressed as it is served: the HTML, the styles,
// all modules, the icons and the manifest.
func TestFirstLoadIsSmall(t *testing.T) {
	const most = 100_000
	h := newHouse(t, scripted{})
	chat := h.say("ana", strings.Repeat("A message of some length, as people write them. ", 20), "")
	loaded, total := map[string]int{}, 0
	var load func(path string)
	load = func(path string) {
		if _, done := loaded[path]; done {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", h.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", "ana")
		r.Header.Set("Accept-Encoding", "gzip") // so that the client does not decompress
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 {
			t.Fatal(path, res.Status, err)
		}
		loaded[path], total = len(packed), total+len(packed)
		// The text has the addresses of what the browser loads next.
		r.Header.Del("Accept-Encoding")
		if res, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		folder := path[:strings.LastIndexByte(path, '/')+1]
		if strings.HasSuffix(path, ".js") {
			for _, m := range regexp.MustCompile(`from "\./([a-z]+\.js)"`).FindAllStringSubmatch(string(text), -1) {
				load(folder + m[1])
			}
			return
		}
		for _, m := range regexp.MustCompile(`"(/assets/[^"#]+|/manifest\.webmanifest)[#"]`).FindAllStringSubmatch(string(text), -1) {
			load(m[1])
		}
	}
	load(chat)
	for _, name := range []string{"page.css", "page.js", "act.js", "live.js", "composer.js", "icons.svg", "icon.svg", "icon-512.png", "manifest.webmanifest"} {
		found := false
		for path := range loaded {
			found = found || strings.HasSuffix(path, "/"+name)
		}
		if !found {
			t.Errorf("%s is not counted: %v", name, loaded)
		}
	}
	t.Logf("the first load has %d bytes: %v", total, loaded)
	if total > most {
		t.Errorf("the first load has %d bytes, more than %d: %v", total, most, loaded)
	}
}

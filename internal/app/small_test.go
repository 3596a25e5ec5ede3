package app

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/settings"
	"steward/internal/tool"
)

func TestPresetsHavePrices(t *testing.T) {
	set := &settings.Loaded{Settings: settings.Defaults()}
	a := &App{}
	s, err := a.Supply(t.Context(), set, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Vendors() {
		for _, name := range []string{v.Presets.Standard, v.Presets.Fast, v.Presets.Strong, v.Presets.Embed} {
			if _, ok := s.Price(v.Name + "/" + name); name != "" && !ok {
				t.Errorf("%s/%s has no price: limits of cost would not hold for it", v.Name, name)
			}
		}
	}
}

type plainTool struct{}

func (plainTool) Spec() tool.Spec { return tool.Spec{Name: "a.b", Timeout: time.Second, ResultCap: 7} }
func (plainTool) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, nil
}

func TestBounded(t *testing.T) {
	set := settings.Tools{Timeout: time.Minute, ResultCap: 9}
	b := bounded{plainTool{}, set}
	if s := b.Spec(); s.Timeout != time.Second || s.ResultCap != 7 {
		t.Errorf("a tool's own bounds are overruled: %+v", s)
	}
	b.set.Timeouts = map[string]time.Duration{"a.b": time.Hour}
	if s := b.Spec(); s.Timeout != time.Hour {
		t.Errorf("a bound that is named does not hold: %+v", s)
	}
	if b.Check(nil) != nil || b.Unwrap() != (plainTool{}) {
		t.Error("not what is inside")
	}
}

func TestPathsVariablesAndAddresses(t *testing.T) {
	a := &App{Dir: "/x", Environ: []string{"A=1", "A=2"}, Version: "v1"}
	if a.Path("y") != "/x/y" || a.Path("/y") != "/y" || a.Getenv("A") != "2" || a.Getenv("B") != "" || a.VersionText() != "v1" {
		t.Error("paths, variables or the version")
	}
	for in, want := range map[string]bool{"http://127.0.0.1:9": false, "https://example.invalid": true, "::": false} {
		if got := a.probe(t.Context(), in); got != want {
			t.Errorf("knock at %s: %v", in, got)
		}
	}
	if u, err := url.Parse("http://127.0.0.1"); err != nil || proxied(u) {
		t.Error("loopback goes through a proxy")
	}
	if err := CannotListen("127.0.0.1:80", os.ErrPermission); !strings.Contains(err.Error(), "cannot listen on") {
		t.Error(err)
	}
}

func TestURLs(t *testing.T) {
	for in, want := range map[string]string{"127.0.0.1:1": "http://127.0.0.1:1", "0.0.0.0:2": "http://127.0.0.1:2", "[::1]:3": "http://[::1]:3", "pipe": "http://pipe"} {
		if got := urlOf(addr(in)); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := urlOf(addr("[::]:4")); got != "http://127.0.0.1:4" {
		t.Error(got)
	}
	for in, want := range map[string]int{"127.0.0.1:1": 2, "0.0.0.0:1": 1, ":1": 1, "nonsense": 1, "box:1": 2} {
		if got := len(hosts([]string{"named"}, in)); got != want {
			t.Errorf("%s: %d", in, got)
		}
	}
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

package app

import (
	"strings"
	"testing"

	"steward/internal/settings"
	domainlocal "steward/internal/tools/local"
)

func TestWithoutChromiumThereIsNoBrowser(t *testing.T) {
	for want, b := range map[domainlocal.State]settings.Browser{domainlocal.Failing: {Path: "/no/such/chromium"}, domainlocal.Off: {Off: true}} {
		set := &settings.Loaded{}
		set.Browser = b
		g := new(Local).browserTools(set)
		if tools, err := g.tools(); len(tools) > 0 || err != nil {
			t.Errorf("%v: %d tools, %v", b, len(tools), err)
		}
		if h := g.Health(t.Context()); h.State != want || h.Say == "" || h.Remedy == "" || b.Path != "" && !strings.Contains(h.Remedy, "apt install chromium") {
			t.Errorf("%v: %+v", b, h)
		}
	}
}

package mailbox

import (
	"net"
	"testing"
)

func TestPresets(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Presets() {
		for _, at := range []string{p.IMAP, p.SMTP} {
			if _, port, err := net.SplitHostPort(at); err != nil || port == "" {
				t.Errorf("%s: %q", p.Name, at)
			}
		}
		if (p.OAuth == "") == (p.Password == "") {
			t.Errorf("%s says not how to log in, or twice", p.Name)
		}
		for _, d := range p.Domains {
			if got, ok := PresetFor("Ann.B@" + d); seen[d] || !ok || got.IMAP != p.IMAP {
				t.Errorf("%s: %+v", d, got)
			}
			seen[d] = true
		}
	}
	if p, ok := PresetFor("ann@GMAIL.com"); !ok || p.Name != "Gmail" {
		t.Error(p)
	}
	for _, unknown := range []string{"ann@example.com", "gmail.com.example", ""} {
		if p, ok := PresetFor(unknown); ok {
			t.Errorf("%s: %+v", unknown, p)
		}
	}
}

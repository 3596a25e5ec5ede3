package service_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/service"
	_ "steward/test/seed"
)

func TestResolve(t *testing.T) {
	warm := 0.5
	pa, wrong := service.Resolve("pa", service.Configs{
		service.LLM:   {Model: "fast", Temperature: &warm, MaxTokens: 500, Offering: service.Serve},
		service.State: {Offering: service.Serve},
		service.DB:    {Source: service.Parent},
		service.User:  {Source: service.Parent, Offering: service.Serve},
		service.Logging: {Source: service.Remote, URL: "http://127.0.0.1:4318", Fallback: service.Local, Key: "OTLP", Level: "warn",
			Offering: service.Serve},
	}, service.Root())
	if wrong != nil {
		t.Fatal(wrong)
	}
	for n, want := range map[service.Name]service.Binding{
		service.LLM:     {Source: service.Local, Owner: "pa", Offered: true},
		service.State:   {Source: service.Local, Owner: "pa", Offered: true},
		service.DB:      {Source: service.Local, Owner: ""},
		service.User:    {Source: service.Local, Owner: "", Offered: true},
		service.Logging: {Source: service.Remote, Owner: "pa", Offered: true},
	} {
		if got := pa[n]; got.Source != want.Source || got.Owner != want.Owner || got.Offered != want.Offered {
			t.Errorf("%s: %+v", n, got)
		}
	}
	child, wrong := service.Resolve("pa/email", service.Configs{
		service.LLM:     {Source: service.Parent, MaxTokens: 9000},
		service.State:   {Source: service.Parent},
		service.Logging: {Source: service.Parent, Level: "debug"},
	}, pa)
	if wrong != nil {
		t.Fatal(wrong)
	}
	if l := child[service.LLM]; l.Model != "fast" || *l.Temperature != 0.5 || l.MaxTokens != 500 || l.Offered {
		t.Errorf("the model comes from above, its bound too: %+v", l)
	}
	if l := child[service.Logging]; l.Source != service.Remote || l.Owner != "pa" || l.Key != "OTLP" || l.Level != "debug" || l.Fallback != service.Local {
		t.Errorf("a remote service is shared as it is: %+v", l)
	}
	if s := child[service.State]; s.Owner != "pa" {
		t.Errorf("state: %+v", s)
	}
	if d := child[service.DB]; d.Owner != "pa/email" || d.Source != service.Local {
		t.Errorf("what is not named is the agent's own: %+v", d)
	}
}

func TestResolveRefuses(t *testing.T) {
	silent, _ := service.Resolve("pa", nil, service.Root())
	for name, c := range map[string]struct {
		own  service.Configs
		code string
	}{
		"not offered":       {service.Configs{service.State: {Source: service.Parent}}, "service_not_offered"},
		"unknown service":   {service.Configs{"mail": {}}, "service_unknown"},
		"unknown source":    {service.Configs{service.State: {Source: "moon"}}, "service_invalid"},
		"unknown offering":  {service.Configs{service.State: {Offering: "yes"}}, "service_invalid"},
		"no url":            {service.Configs{service.State: {Source: service.Remote}}, "service_invalid"},
		"a file":            {service.Configs{service.State: {Source: service.Remote, URL: "file:///etc/passwd"}}, "service_invalid"},
		"a url for nothing": {service.Configs{service.State: {URL: "http://x"}}, "service_invalid"},
		"fallback of local": {service.Configs{service.State: {Fallback: service.Local}}, "service_invalid"},
		"fallback to above": {service.Configs{service.State: {Source: service.Remote, URL: "http://x", Fallback: service.Parent}}, "service_invalid"},
		"level":             {service.Configs{service.Logging: {Level: "loud"}}, "service_invalid"},
	} {
		_, wrong := service.Resolve("pa/x", c.own, silent)
		if len(wrong) != 1 || !fault.HasCode(wrong[0], c.code) || fault.Of(wrong[0]).Remedy == "" {
			t.Errorf("%s: %v", name, wrong)
		}
	}
	if _, wrong := service.Resolve("x", service.Configs{"a": {}, service.State: {Source: "b"}}, silent); len(wrong) != 2 {
		t.Errorf("all faults at once: %v", wrong)
	}
}

// Whatever the levels say: a service is never had that some level above did
// not offer, and the owner is that level or one above it.
func TestOffersGoDownOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		above, path := service.Root(), ""
		offered := map[service.Name]bool{}
		for _, n := range service.Names() {
			offered[n] = true
		}
		for depth := range rapid.IntRange(1, 6).Draw(t, "levels") {
			path += "/a"
			if depth == 0 {
				path = "a"
			}
			own := service.Configs{}
			for _, n := range service.Names() {
				own[n] = service.Config{
					Source:   rapid.SampledFrom([]service.Source{"", service.Local, service.Parent}).Draw(t, "source"),
					Offering: rapid.SampledFrom([]service.Offering{"", service.None, service.Serve}).Draw(t, "offering"),
				}
			}
			got, wrong := service.Resolve(path, own, above)
			var missing []service.Name
			for _, n := range service.Names() {
				if own[n].Source == service.Parent && !offered[n] {
					missing = append(missing, n)
					continue
				}
				if own[n].Source != service.Parent && got[n].Owner != path {
					t.Fatalf("%s of %s belongs to %q", n, path, got[n].Owner)
				}
				offered[n] = own[n].Offering == service.Serve
			}
			if len(missing) != len(wrong) {
				t.Fatalf("%v are not offered, refused were %v", missing, wrong)
			}
			if len(wrong) > 0 {
				return
			}
			for _, n := range service.Names() {
				if !slices.Contains([]service.Source{service.Local, service.Remote}, got[n].Source) {
					t.Fatalf("%s: %v", n, got[n].Source)
				}
			}
			above = got
		}
	})
}

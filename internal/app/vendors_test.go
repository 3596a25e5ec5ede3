package app

import (
	"net/url"
	"slices"
	"testing"

	"steward/internal/llm"
)

// TestTheTableOfVendors: each row says what its way of access needs, and nothing twice.
func TestTheTableOfVendors(t *testing.T) {
	names, prefixes := map[string]bool{}, map[string]bool{}
	for v := range Vendors().All() {
		switch {
		case v.Name == "" || v.Title == "" || v.Open == nil || names[v.Name]:
			t.Errorf("%s: no name of its own, no title or no client", v.Name)
			continue
		case v.Access == llm.ByKey && (len(v.KeyEnv) == 0 || v.BaseURL == "" || v.Presets.Standard == ""):
			t.Errorf("%s is used by a key, without a variable, an address or a model", v.Name)
		case v.Access == llm.ByServer && v.BaseURL == "" && v.URLEnv == "" && v.Locate == nil:
			t.Errorf("%s is at no known place", v.Name)
		case v.Access == llm.ByLocal && v.BaseURL == "":
			t.Errorf("%s cannot be looked for", v.Name)
		case v.Access == llm.BuiltIn && v.Presets.Standard == "":
			t.Errorf("%s has no model", v.Name)
		case !slices.Contains([]llm.Access{llm.ByKey, llm.ByServer, llm.ByLocal, llm.BuiltIn}, v.Access):
			t.Errorf("%s: access %q", v.Name, v.Access)
		case v.Presets.Transcribe != "" && v.Transcriptions == "":
			t.Errorf("%s has a model that transcribes, and no place for it", v.Name)
		}
		names[v.Name] = true
		if u, err := url.Parse(v.BaseURL); v.BaseURL != "" && (err != nil || u.Host == "") {
			t.Errorf("%s: %q", v.Name, v.BaseURL)
		}
		for _, p := range v.KeyPrefixes {
			if prefixes[p] {
				t.Errorf("%s: keys of two vendors begin with %s", v.Name, p)
			}
			prefixes[p] = true
		}
		if got := v.Open(llm.Endpoint{Name: v.Name, BaseURL: v.BaseURL, Key: "k"}).Name(); got != v.Name {
			t.Errorf("%s opens %s", v.Name, got)
		}
		for i, f := range v.Formats {
			if f.Codec == nil || f.List == "" || (f.System == "") != (f.EncodeSystem == nil) || i == 0 && f.Name != v.Name {
				t.Errorf("%s: %+v", v.Name, f)
			}
		}
		if Vendors().Index(v.Name) < 0 && len(v.Servers) > 0 {
			t.Errorf("the server %s has servers", v.Name)
		}
	}
	if s := Starter().Starter; len(s.Models) == 0 || s.Download == "" || s.Pull == "" {
		t.Errorf("%+v", s)
	}
	if !IsBuiltIn("offline") || IsBuiltIn("openai") || IsBuiltIn("nowhere") {
		t.Error("the wrong provider is built in")
	}
}

func TestVendorsByNameAndDialect(t *testing.T) {
	for _, c := range []struct {
		name, dialect, title string
		access               llm.Access
	}{
		{"anthropic", "", "Anthropic", llm.ByKey}, {"anthropic", "chat", "Anthropic", llm.ByKey}, {"anthropic", "bedrock", "Claude on Amazon Bedrock", llm.ByServer},
		{"mine", "vertex", "Gemini on Vertex AI", llm.ByServer}, {"mine", "chat", "mine", llm.ByServer}, {"groq", "", "Groq", llm.ByServer},
		{"lmstudio", "", "LM Studio", llm.ByLocal}, {"mine", "groq", "mine", llm.ByServer},
	} {
		if v := Vendors().For(c.name, c.dialect); v.Name != c.name || v.Title != c.title || v.Access != c.access || v.Open == nil {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

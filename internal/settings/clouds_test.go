package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/vendors"
)

// A provider in a cloud gets its address from project and region; tools of its own must exist.
func TestClouds(t *testing.T) {
	load := func(text string, env ...string) (*Loaded, error) {
		file := filepath.Join(t.TempDir(), "s.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{Vendors: vendors.All(), File: file, Dir: t.TempDir(), Environ: env})
	}
	for _, c := range []struct{ text, env, name, want string }{
		{"providers: {bedrock: {key_env: X}}", "X=abcdefgh", "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic"},
		{"providers: {bedrock: {key: abcdefgh}}", "AWS_REGION=eu-west-1", "bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com/anthropic"},
		{"{}", "AWS_BEARER_TOKEN_BEDROCK=abcdefgh", "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic"},
		{"providers: {vertex: {project: p}}", "X=", "vertex", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"},
		{"providers: {mine: {dialect: vertex-claude, project: p, region: eu}}", "X=", "mine", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic"},
		{"providers: {vertex-claude: {region: europe-west1}}", "GOOGLE_CLOUD_PROJECT=p", "vertex-claude", "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/anthropic"},
	} {
		l, err := load(c.text, c.env)
		if err != nil || l.Providers[c.name].BaseURL != c.want {
			t.Errorf("%s: %+v, %v", c.text, l, err)
		}
	}
	for text, want := range map[string]string{
		"providers: {vertex: {region: global}}":                      "providers.vertex needs a project",
		"providers: {vertex: {project: 'a/b'}}":                      "is not a project or region",
		"providers: {bedrock: {model: x}}":                           "providers.bedrock needs a Bedrock API key: set AWS_BEARER_TOKEN_BEDROCK",
		"providers: {bedrock: {key: x, tools: [web_search]}}":        "has no built-in tool \"web_search\"",
		"providers: {gemini: {key: x, tools: [web_fetch]}}":          "its tools are [google_search url_context code_execution]",
		"providers: {anthropic: {key: x, tools: [google_search]}}":   "has no built-in tool \"google_search\"",
		"providers: {openai: {key: x, tools: [web_search, shell]}}":  "shell",
		"providers: {mine: {dialect: bedrock, region: '../../etc'}}": "is not a project or region",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if l, err := load("providers: {vertex: {off: true}, anthropic: {key: x, tools: [web_fetch]}}"); err != nil || len(l.Providers["anthropic"].Tools) != 1 {
		t.Errorf("%v", err)
	}
}

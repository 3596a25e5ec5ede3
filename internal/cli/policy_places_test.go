package cli

import (
	"testing"

	"steward/internal/app"
	"steward/internal/settings"
)

func TestPlaces(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	set := &settings.Loaded{}
	set.Providers = map[string]settings.Provider{
		"loop": {BaseURL: "http://127.0.0.1:8080/v1"}, "six": {BaseURL: "http://[::1]:8080"}, "lan": {BaseURL: "http://192.168.1.7:8000"},
		"link": {BaseURL: "http://[fe80::1]:80"}, "ula": {BaseURL: "http://[fd00::1]"}, "name": {BaseURL: "http://nas:8000"},
		"mdns": {BaseURL: "http://nas.local"}, "home": {BaseURL: "https://llm.home.arpa."}, "localhost": {BaseURL: "http://localhost:1234"},
		"public": {BaseURL: "https://llm.example.org"}, "number": {BaseURL: "http://8.8.8.8"}, "odd": {BaseURL: "://"}, "none": {BaseURL: "http://"},
		"vpn": {BaseURL: "https://llm.example.org", Place: "local"}, "tunnel": {BaseURL: "http://127.0.0.1:99", Place: "cloud"},
		"openai": {Key: "k"}, "lookalike": {BaseURL: "http://127.0.0.1.example.org"}, "mapped": {BaseURL: "http://[::ffff:10.0.0.1]"},
	}
	local := app.Places(set)
	for model, want := range map[string]bool{
		"loop/x": true, "six/x": true, "lan/x": true, "link/x": true, "ula/x": true, "name/x": true, "mdns/x": true, "home/x": true, "localhost/x": true,
		"mapped/x": true, "public/x": false, "number/x": false, "odd/x": false, "none/x": false, "vpn/x": true, "tunnel/x": false, "openai/gpt": false,
		"lookalike/x": false, "unknown/x": false, "service/llm": false, "offline/steward": true,
		"lmstudio/x": true, "groq/x": false, "ollama/llama3.2": true, "ollama/gpt-oss:120b-cloud": false, "ollama/glm:cloud": false,
	} {
		if local(model) != want {
			t.Errorf("%s is local: %v", model, !want)
		}
	}
	set.Providers["ollama"] = settings.Provider{BaseURL: "https://ollama.example.org"}
	if app.Places(set)("ollama/llama3.2") {
		t.Error("Ollama elsewhere is taken to be at home")
	}
}

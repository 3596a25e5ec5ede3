package node

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/fresh"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/secret"
)

func TestAPlanIsWritten(t *testing.T) {
	env := fresh.User(t)
	var errs strings.Builder
	a := &program{&command.Program{Stdout: io.Discard, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}}
	set, err := a.Settings()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimPrefix(env[0], "HOME="), ".config/steward/steward.yaml")
	p := plan{model: "anthropic/claude-sonnet-5", provider: "anthropic", key: "sk-ant-0123456789"}
	if err := a.writePlan(set, file, p); err != nil {
		t.Fatal(err)
	}
	set, err = a.Settings()
	if err != nil || set.Providers["anthropic"].Key.Reveal() != "store:anthropic_api_key" || set.Models["default"].Use[0] != p.model || !set.Providers["ollama"].Off {
		t.Errorf("%v %+v", err, set)
	}
	if key, err := secret.NewStore(secret.Folder(set.Data)).Get("anthropic_api_key"); err != nil || key != p.key {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), p.key) || strings.Contains(errs.String(), p.key) {
		t.Errorf("the key is shown: %s %s", b, &errs)
	}
}

// Whoever takes every suggestion of a later setup keeps the folder that is in the settings.
func TestSetupKeepsTheFolder(t *testing.T) {
	for _, folder := range []string{"/srv/papers", "~/papers", "off"} {
		env := fresh.User(t)
		file := filepath.Join(strings.TrimPrefix(env[0], "HOME="), ".config/steward/steward.yaml")
		before, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text := string(before) + "workspace: " + folder + " # mine\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		a := &program{&command.Program{Stdout: io.Discard, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}}
		if err := a.setup(t.Context(), true, false); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != text || !strings.Contains(errs.String(), "Nothing was changed.") {
			t.Errorf("%s: %v\n%s\n%s", folder, err, after, &errs)
		}
	}
}

func TestLocalAdvice(t *testing.T) {
	for gb, best := range map[uint64]string{0: "qwen3:30b", 4: "qwen3:4b", 8: "qwen3:4b", 16: "gpt-oss:20b", 64: "qwen3:30b"} {
		if say := localAdvice(app.Starter(), gb*1e9, gb == 8); !strings.Contains(say, "ollama pull "+best+"\n") || strings.Contains(say, "install Ollama") == (gb == 8) {
			t.Errorf("%d GB: %s", gb, say)
		}
	}
	file := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]uint64{"MemTotal:  16384 kB\nMemFree: 1 kB\n": 16 << 20, "MemTotal: x kB\n": 0, "": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := app.TotalMemory(file); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if got := app.TotalMemory(file + "x"); got != 0 {
		t.Error(got)
	}
}

func TestProviderOf(t *testing.T) {
	const sk = "sk-0123456789abcdef"
	for text, want := range map[string]string{
		sk: "openai", sk + "\r": "openai", "  " + sk + "\n": "openai", `"` + sk + `"`: "openai",
		"OPENAI_API_KEY=" + sk: "openai", `export OPENAI_API_KEY="` + sk + `"`: "openai",
		"sk-ant-api03-0123456789": "anthropic", "sk-or-v1-0123456789": "openrouter", "AIza0123456789": "gemini",
		"": "", "sk-": "", "nonsense": "", "sk-0123 456789": "", "my key is " + sk: "",
	} {
		key, provider := app.KeyOf(text)
		if provider != want || provider == "openai" && key != sk {
			t.Errorf("%q: %q %q", text, key, provider)
		}
	}
}

// The longest form of a key counts: "sk-" is OpenAI's, and others begin like it.
func TestTypedKeysAreRecognised(t *testing.T) {
	for text, want := range map[string]string{
		"sk-0123456789abcdef": "openai", "sk-ant-0123456789abcdef": "anthropic", "sk-or-0123456789abcdef": "openrouter", "AIza0123456789abcdef": "gemini",
		"gsk_0123456789abcdef": "groq", "export XAI_API_KEY='xai-0123456789abcdef'": "xai", "hello-0123456789abcdef": "",
	} {
		if _, got := app.KeyOf(text); got != want {
			t.Errorf("%s is taken for one of %q", text, got)
		}
	}
}

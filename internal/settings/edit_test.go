package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestEditKeepsWhatIsThere(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"no file":         {"", "models:\n  default: openai/gpt-5\n"},
		"other sections":  {"# mine\nlisten: 127.0.0.1:1 # here\nfuture: {a: 1}", "# mine\nlisten: 127.0.0.1:1 # here\nfuture: {a: 1}\nmodels:\n  default: openai/gpt-5\n"},
		"the section":     {"models: # names\n    # the fast one\n    fast: a/b\n\nlog: {level: warn}\n", "models: # names\n    default: openai/gpt-5\n    # the fast one\n    fast: a/b\n\nlog: {level: warn}\n"},
		"an empty one":    {"models:\nlisten: 127.0.0.1:1\n", "models:\n  default: openai/gpt-5\nlisten: 127.0.0.1:1\n"},
		"the value":       {"models:\n  default: old/one # why\n  fast: a/b\n", "models:\n  default: openai/gpt-5 # why\n  fast: a/b\n"},
		"a quoted value":  {"models:\n  default: \"old/one\"\n", "models:\n  default: openai/gpt-5\n"},
		"only a comment":  {"# nothing yet\n", "# nothing yet\nmodels:\n  default: openai/gpt-5\n"},
		"carriage return": {"log:\r\n  level: warn\r\n", "log:\r\n  level: warn\r\nmodels:\n  default: openai/gpt-5\n"},
	} {
		path := filepath.Join(t.TempDir(), "conf", "steward.yaml")
		if tt.before != "" {
			write(t, path, tt.before)
		}
		if err := Edit(path, Change{Key: "models.default", Value: "openai/gpt-5"}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != tt.after {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What cannot be edited safely stays as it is, and the person is told what to write.
func TestEditRefuses(t *testing.T) {
	for _, before := range []string{"models: {fast: a/b}\n", "models:\n  default: [a/b, c/d]\n", "models:\n  default: {use: a/b}\n", "models: &a\n  fast: a/b\n",
		"- a\n- b\n", "models: [\n", "models:\n  default: |\n    a/b\n", "{models: {default: a/b}}\n", "{a: 1}\n"} {
		path := filepath.Join(t.TempDir(), "steward.yaml")
		write(t, path, before)
		err := Edit(path, Change{Key: "listen", Value: "127.0.0.1:1"}, Change{Key: "models.default", Value: "openai/gpt-5"})
		if !fault.HasCode(err, "settings_uneditable") || fault.Of(err).Remedy == "" {
			t.Errorf("%q: %v", before, err)
		}
		if b, _ := os.ReadFile(path); string(b) != before {
			t.Errorf("%q has become %q", before, b)
		}
	}
	path := t.TempDir()
	if err := Edit(path, Change{Key: "a", Value: "b"}); !fault.HasCode(err, "settings_unreadable") {
		t.Error(err)
	}
}

// Any value can be written into any file that is edited, and is read back as it was.
func TestEditedFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~äß€\n\t]{1,40}`).Draw(t, "value")
		before := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"# c\n", "log:\n  level: warn\n", "\n", "models:\n  # d\n  default: x\n", "models:\n", "profile: {units: metric}\n"})).Draw(t, "file"), "")
		_, broken := parsed([]byte(before)) // a key that is there twice
		out, err := edited([]byte(before), Change{Key: "models.default", Value: value})
		if err != nil {
			if broken == nil {
				t.Fatalf("%q %q: %v", before, value, err)
			}
			return
		}
		root, err := parsed(out)
		if err != nil || root.Get("models").Get("default").Text != value {
			t.Fatalf("%v %q", err, out)
		}
	})
	if got := UserFile([]string{"HOME=" + dir}); got != filepath.Join(dir, ".config/steward/steward.yaml") {
		t.Error(got)
	}
	if got := UserFile(nil); got != "" {
		t.Error(got)
	}
}

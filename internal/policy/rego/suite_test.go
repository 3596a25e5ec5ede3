package rego

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
)

// folder makes a folder of policies.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

// put writes a file as an editor would: in place, as a whole.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write(file, text); err != nil {
		t.Fatal(err)
	}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRules runs the Rego tests of the default bundle and of each template.
func TestRules(t *testing.T) {
	settings := map[string]any{"approve": "actions"}
	for _, name := range []string{"default", "family", "team", "locked"} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"default_test.rego": testdata(t, "default_test.rego")})
			if name != "default" {
				if _, err := Use(dir, name, false); err != nil {
					t.Fatal(err)
				}
				put(t, dir, "template_test.rego", testdata(t, name+"_test.rego"))
			}
			results, err := Test(t.Context(), dir, settings)
			if err != nil {
				t.Fatal(err)
			}
			ran := 0
			for _, r := range results {
				if name != "default" && strings.HasPrefix(r.Where, "default_test.rego") {
					continue // a template may change the default
				}
				ran++
				if !r.Passed {
					t.Errorf("%s %s: %s %s %s", r.Where, r.Name, r.Failed, r.FailedAt, r.Error)
				}
			}
			if ran < 3 {
				t.Errorf("%d tests ran", ran)
			}
		})
	}
}

func TestTestsTellWhatFails(t *testing.T) {
	dir := folder(t, map[string]string{
		"house.rego": "package steward\n\ntrusted if input.tool.name == \"light.on\"\n",
		"house_test.rego": "package steward_test\n\nimport data.steward\n\n" +
			"test_light if steward.trusted with input as {\"tool\": {\"name\": \"light.on\"}}\n\n" +
			"test_wrong if {\n\ttrue\n\tsteward.trusted with input as {\"tool\": {\"name\": \"light.off\"}}\n}\n\n" +
			"test_error if to_number(\"x\") == 1\n\n" +
			"test_light if input.action == \"none\"\n\ntest_both if test_light\n",
	})
	got, err := Test(t.Context(), dir, nil)
	if err != nil || len(got) != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	if !got[0].Passed || got[0].Name != "test_light" || got[0].Where != "house_test.rego:5" {
		t.Errorf("%+v", got[0])
	}
	if got[1].Passed || got[1].FailedAt != "house_test.rego:9" || !strings.HasPrefix(got[1].Failed, "steward.trusted") {
		t.Errorf("%+v", got[1])
	}
	if got[2].Passed || got[2].Error == "" {
		t.Errorf("%+v", got[2])
	}
	if got[3].Passed || got[3].Name != "test_light" || got[3].FailedAt != "house_test.rego:14" { // the second test of that name
		t.Errorf("%+v", got[3])
	}
	if !got[4].Passed {
		t.Errorf("%+v", got[4])
	}
	if _, err := Test(t.Context(), t.TempDir(), nil); !fault.HasCode(err, "policy_no_tests") {
		t.Error(err)
	}
	put(t, dir, "bad_test.rego", "package steward_test\n\ntest_x if http.send({}).status == 200\n")
	if _, err := Test(t.Context(), dir, nil); !fault.HasCode(err, "policy_invalid") || !strings.Contains(err.Error(), "bad_test.rego:3") {
		t.Error(err)
	}
	put(t, dir, "bad_test.rego", "package steward_test\n\ntest_x contains 1\n")
	if _, err := Test(t.Context(), dir, nil); !fault.HasCode(err, "policy_invalid") || !strings.Contains(err.Error(), "bad_test.rego:3") {
		t.Error(err)
	}
	put(t, dir, "house.rego", "package steward\n\ntrusted if nothing\n")
	if _, err := Test(t.Context(), dir, nil); !fault.HasCode(err, "policy_invalid") || !strings.Contains(err.Error(), "house.rego:3") {
		t.Error(err)
	}
}

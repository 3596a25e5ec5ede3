package window_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/tool"
)

// subjectOf returns the part of a reason that comes from a call's arguments.
func subjectOf(t *testing.T, param, value string) string {
	t.Helper()
	ts := tools{"a.b": with("a.b", tool.Strategy{Kind: tool.ByParameters, Parameters: []string{param}})}
	b := newBranch(tracking(ts))
	args, err := json.Marshal(map[string]string{param: value})
	if err != nil {
		t.Fatal(err)
	}
	b.does("1", "a.b", string(args))
	c := b.asks(call{"2", "a.b", string(args)})[0]
	got := b.Observe(t.Context(), &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 4)
	if len(got) != 1 || len(got[0].Reason) > 300 {
		t.Fatalf("%+v", got)
	}
	what, _, _ := strings.Cut(got[0].Reason, " was made")
	return strings.TrimPrefix(strings.TrimPrefix(what, "a.b"), " of ")
}

// TestSecretsAreNotTold: reasons contain ordinary values, but none whose parameter
// has a secret's name and none that looks like a secret.
func TestSecretsAreNotTold(t *testing.T) {
	for _, name := range []string{"password", "api_key", "apiKey", "access-token", "Authorization", "client_secret", "pin", "basic_auth", "cookie"} {
		if got := subjectOf(t, name, "open sesame"); got != "" {
			t.Errorf("%s is told: %q", name, got)
		}
	}
	for _, value := range []string{
		"sk-proj-abcdefgh12345678", "ghp_abcdefgh12345678", "github_pat_11ABCDEFG0_abcdefghijklmnop", "xoxb-123456789012", "AKIAIOSFODNN7EXAMPLE", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "Bearer abc.defg", "-----BEGIN PRIVATE KEY-----", "https://me:pw@example.org/x",
		"https://example.org/?token=abc", "mysql -u root --password=x", "curl -H 'x: q8Zk1Lr0Tt9Yw2Vb7Nc4Xd5K'", "0123456789abcdef0123456789abcdef", "hf_abcdefghijklmnop",
	} {
		if got := subjectOf(t, "text", value); got != "" {
			t.Errorf("%s is told: %q", value, got)
		}
	}
	for _, value := range []string{
		"notes/a.txt", "src/components/Button2.tsx", "https://example.org/a@b/c?page=2", "Straße 12, 10115 Berlin", "mail@example.org",
		"internal/provider/anthropic/encode.go", "2026-11-21T18:02:00Z", "SELECT count(*) FROM t", "sk-", "deadbeef",
	} {
		if got := subjectOf(t, "text", value); got != value {
			t.Errorf("%s is told as %q", value, got)
		}
	}
}

// FuzzArguments: equal arguments match each other if they are one strict JSON
// object, and match nothing otherwise.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, `{}`, ``, ` `, `{"path":1.0,"x":[{}]}`, `{"path":"a","path":"b"}`, `{"path"`, `[]`, `null`, `{"path":1e999}`,
		"{\"path\":\"\xff\"}", `{"x":1e999}`, `{"path":"\ud800"}`, `{}x`, `{"":{"":""}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		b := newBranch(tracking(files()))
		b.does("1", "files.read", string(args))
		got := b.does("2", "files.read", string(args)) == "1"
		canon, err := tool.Canonical(args)
		want := err == nil && canon[0] == '{' || len(bytes.TrimSpace(args)) == 0
		outOfRange := err != nil && strings.Contains(err.Error(), "out of range") // in a member that the tracker does not compare
		if got != want && !outOfRange {
			t.Errorf("%q is the same: %v", args, got)
		}
	})
}

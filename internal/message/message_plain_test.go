package message_test

import (
	"testing"

	"steward/internal/message"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		status     message.Status
		text, want string
	}{
		{message.Failed, "it broke\n[error_code: broken]", "it broke"},
		{message.Unavailable, "a\nb\n[error_code: x; recoverable: true; retry_strategy: backoff]", "a\nb"},
		{message.OK, "it says\n[error_code: broken]", "it says\n[error_code: broken]"},
		{message.Failed, "[error_code: broken]", "[error_code: broken]"},
		{message.Failed, "it broke [1]", "it broke [1]"},
		{message.Failed, "it broke\n[1]", "it broke\n[1]"},
	} {
		r := &message.ToolResult{Status: c.status, Content: []message.Block{&message.Text{Text: c.text}}}
		if got := r.Plain(); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.status, c.text, got, c.want)
		}
	}
}

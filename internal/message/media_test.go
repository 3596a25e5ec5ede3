package message_test

import (
	"testing"

	"steward/internal/message"
)

func TestMediaType(t *testing.T) {
	for url, want := range map[string]string{
		"https://x/a.PNG": "image/png", "https://x/a.jpg?size=.gif": "image/jpeg", "https://x/a.jpeg": "image/jpeg", "https://x/a.gif": "image/gif",
		"https://x/a.webp": "image/webp", "https://x/b.pdf#p": "application/pdf", "https://x/a.txt": "text/plain", "https://x/a.md": "text/markdown",
		"https://x/a.csv": "text/csv", "https://x/a.htm": "text/html", "https://x/a.json": "application/json",
		"a.PNG": "image/png", "e.webp": "image/webp", "report.txt": "text/plain", "https://x/a.wav": "audio/wav", "https://x/a.mp3": "audio/mpeg",
		"h": "image/*", "https://x/a": "image/*", "https://x.png": "image/*", "http://%zz": "image/*",
	} {
		if got := message.MediaType(url, "image/*"); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

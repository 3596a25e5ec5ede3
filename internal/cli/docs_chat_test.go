//go:build long

package cli

import (
	"strings"
	"testing"
)

// TestConsoleWithAChat runs the documents that open a chat.
func TestConsoleWithAChat(t *testing.T) { consoles(t, chatConsole) }

// chatConsole runs a chat from a document: lines that begin with "› " are typed,
// "[y]" is a key press, and the screen must show all other lines. "…" stands for
// any text.
func chatConsole(t *testing.T, env []string, line string, says []string) {
	t.Helper()
	x := newTmux(t, 100, 60, env, strings.Fields(line)[1:]...)
	x.wait("Ask something")
	for _, say := range says {
		key := strings.TrimSuffix(strings.TrimPrefix(say, "["), "]")
		switch {
		case strings.HasPrefix(say, "› "):
			x.say(strings.TrimPrefix(say, "› "))
		case say == "[Ctrl-D]":
			x.keys("C-d")
			x.ended()
		case say == "["+key+"]":
			x.answer(key)
		default:
			for part := range strings.SplitSeq(say, "…") {
				x.wait(strings.TrimSpace(part))
			}
		}
	}
}

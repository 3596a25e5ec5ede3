package messaging

import (
	"fmt"
	"strings"
)

// Limits of what is remembered of a group.
const (
	maxHeard     = 20   // messages of a group
	maxHeardText = 500  // bytes of one
	maxGroups    = 1000 // groups; others are forgotten
)

// heard is what somebody said in a group without addressing Steward.
type heard struct{ name, text string }

// hear remembers what was said in a group, in memory only: nobody there has agreed to be recorded.
func (e *Engine) hear(at place, u *update, paired bool) {
	if u.Text == "" || u.Kind != "message" {
		return
	}
	text, _ := cut(u.Text, maxHeardText)
	name, _ := cut(u.From.Name, 60)
	if paired {
		name += " (your user, not to you)"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.heard[at]; !known && len(e.heard) >= maxGroups {
		clear(e.heard)
	}
	list := append(e.heard[at], heard{name, text})
	e.heard[at] = list[max(0, len(list)-maxHeard):]
}

// lately quotes what was said in a group.
func (e *Engine) lately(at place) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, h := range e.heard[at] {
		fmt.Fprintf(&b, "> %s: %s\n", strings.Join(strings.Fields(h.name), " "), strings.ReplaceAll(h.text, "\n", "\n> "))
	}
	return b.String()
}

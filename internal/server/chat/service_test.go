package chat_test

import (
	"testing"

	"steward/internal/server/chat"
)

// With a program nobody is there who can be asked, whatever it sends.
func TestServicesAreNeverAttended(t *testing.T) {
	d := newDouble(nil)
	_, url := serve(t, chat.Options{Node: d})
	for user, attended := range map[string]bool{"ana": true, "robot": false} {
		c := dial(t, url, user)
		c.send(`{"type":"message","id":"1","content":"Hello"}`)
		for f := c.next(); f["type"] != "accepted"; f = c.next() {
			if f["type"] == "error" {
				t.Fatalf("%v", f)
			}
		}
		if got := d.last().Attended; got != attended {
			t.Errorf("%s is attended: %v", user, got)
		}
	}
}

package activity

import (
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/id"
)

func TestActionsAreDrawn(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	x := func(n byte) string { return id.ID{0: n, 6: 0x70, 8: 0x80}.String() }
	list := []client.Intent{
		{ID: x(1), State: intentDone, Tool: "calendar.add", Args: []byte(`{"title":"T\u001bea"}`), Summary: "Add T\u001bea to the calendar", Changed: at, Reason: "it is trusted"},
		{ID: x(2), State: intentUnknown, Dead: true, Tool: "email.send", Args: []byte(`{}`), Summary: "Send hello to bob@example.com", Changed: at, Reason: "the line\x1b went dead", Undoes: x(1)},
		{ID: x(3), State: intentFailed, Dead: true, Tool: "files.write", Args: []byte(`{}`), Changed: at, Retries: x(4)},
	}
	want := "01-02 03:04  ✓ done                     01000000  calendar.add  Add T ea to the calendar\n" +
		"01-02 03:04  ? unknown                  02000000  email.send  Take back: Send hello to bob@example.com  (the line went dead)\n" +
		"01-02 03:04  ✗ failed, needs attention  03000000  files.write  Try again: files.write {}\n"
	got := intentTable(list, 0)
	if squeezed(got) != squeezed(want) || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(intentTable(list, 50), "\n") {
		if n := len([]rune(l)); n > 50 {
			t.Errorf("%d wide: %s", n, l)
		}
	}
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), " ") }

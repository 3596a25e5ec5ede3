package providertest

import (
	"strconv"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
)

// Reads holds what is read of a history that another program wrote against
// messages in their stored form, one each, in which ids stand as "#0", "#1", …
// and the message's own and its predecessor's are left out.
func Reads(t *testing.T, decode func([]byte) ([]*message.Message, error), in string, want ...string) {
	t.Helper()
	msgs, err := decode([]byte(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	var got []string
	for _, m := range msgs {
		c := *m
		s := string(message.Append(nil, &c))
		s = strings.Replace(s, `"id":"`+m.ID.String()+`",`, "", 1)
		s = strings.Replace(s, `"prev":"`+m.Prev.String()+`",`, "", 1)
		for i, m := range msgs {
			s = strings.ReplaceAll(s, m.ID.String(), "#"+strconv.Itoa(i))
		}
		got = append(got, s)
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s\nis read as\n%s\nnot as\n%s", in, g, w)
	}
}

// Unreadable is a history that cannot be read, with the fault's code and place.
type Unreadable struct{ In, Code, At string }

// Refuses holds faults against their codes and places.
func Refuses(t *testing.T, decode func([]byte) ([]*message.Message, error), all ...Unreadable) {
	t.Helper()
	for _, u := range all {
		msgs, err := decode([]byte(u.In))
		f := fault.Of(err)
		if err == nil || msgs != nil || f.Kind != fault.Invalid || f.Code != u.Code {
			t.Errorf("%s: %v, want %s", u.In, err, u.Code)
			continue
		}
		if at, _ := f.Details["at"].(string); at != u.At || !strings.Contains(err.Error(), u.At) {
			t.Errorf("%s: the place is %q, want %q: %v", u.In, at, u.At, err)
		}
	}
}

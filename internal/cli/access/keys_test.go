package access

import (
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for in, want := range map[string]time.Time{
		"": {}, "10d": now.AddDate(0, 0, 10), "12h": now.Add(12 * time.Hour), "2030-01-31": time.Date(2030, 1, 31, 0, 0, 0, 0, time.Local),
		"2030-01-31T10:00:00Z": time.Date(2030, 1, 31, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := expiry(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v %v", in, got, err)
		}
	}
	for _, in := range []string{"0d", "-1h", "soon", "99999999d", "d"} {
		if _, err := expiry(in, now); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
}

package command

import (
	"testing"
	"time"
)

func TestLinesAndExitCodes(t *testing.T) {
	if got := PlainLine("a\x1b[2Jb\u0085c"); got != "a [2Jb c" {
		t.Errorf("%q", got)
	}
	if ExitCode(3).Error() != "exit code 3" {
		t.Error("exit code")
	}
}

func TestSearchTimes(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2030, 3, 4, 5, 6, 7, 0, zone)
	for in, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "24h": "2030-03-03T05:06:07+01:00", "90m": "2030-03-04T03:36:07+01:00", "7d": "2030-02-25T05:06:07+01:00", "2w": "2030-02-18T05:06:07+01:00",
		"2029-12-31": "2029-12-31T00:00:00+01:00", "2029-12-31 07:30": "2029-12-31T07:30:00+01:00", "2029-12-31T07:30": "2029-12-31T07:30:00+01:00", "2029-12-31T07:30:00Z": "2029-12-31T07:30:00Z",
	} {
		if got, err := parsePast(in, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v", in, got, err)
		}
	}
	for _, in := range []string{"yesterday", "-5h", "-1d", "d", "2029-13-01"} {
		if got, err := parsePast(in, now); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
}

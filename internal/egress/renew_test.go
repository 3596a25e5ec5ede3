package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"steward/internal/egress"
)

// gate is a receiver that takes one key and records the requests.
type gate struct {
	takes string
	seen  []string
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	g.seen = append(g.seen, r.Header.Get("Authorization")+" "+string(body))
	status := http.StatusOK
	if r.Header.Get("Authorization") != g.takes {
		status = http.StatusUnauthorized
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
}

func TestBearerIsReadAgainWhenItIsRefused(t *testing.T) {
	key, broken := "one", false
	g := &gate{takes: "Bearer one"}
	rt := egress.Bearer(g, func() (string, error) {
		if broken {
			return "", errors.New("locked")
		}
		return key, nil
	})
	ask := func() string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://far.test", strings.NewReader("hi"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := rt.RoundTrip(r)
		if err != nil {
			return err.Error()
		}
		seen := strings.Join(g.seen, "|")
		g.seen = nil
		return fmt.Sprint(res.StatusCode, " ", seen)
	}
	broken = true
	if got := ask(); got != "locked" {
		t.Error(got)
	}
	broken = false
	for i, want := range []string{"200 Bearer one hi", "200 Bearer one hi|Bearer two hi", "200 Bearer two hi", "401 Bearer two hi", "401 Bearer two hi", "200 Bearer two hi| hi"} {
		switch i {
		case 1: // replaced, and the old one is refused
			key, g.takes = "two", "Bearer two"
		case 3: // refused, and there is no other
			g.takes = "Bearer three"
		case 4: // it cannot be read
			broken = true
		case 5: // it needs none
			broken, key, g.takes = false, "", ""
		}
		if got := ask(); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}

package auth_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/server/auth"
)

// reading serves requests of "guest 1", "guest 2" and the owner. Each is told in read once its body has been
// read, and lasts until end is closed.
type reading struct {
	handler http.Handler
	intake  *auth.Intake
	mu      sync.Mutex
	read    []string
	end     chan struct{}
}

func newReading(o auth.IntakeOptions) *reading {
	r := &reading{intake: auth.NewIntake(o), end: make(chan struct{})}
	g := auth.New(auth.Options{Keys: keys{"sk-steward-1": "gus", "sk-steward-2": "gil", "sk-steward-0": "local", "sk-steward-3": "ana"}, Intake: r.intake,
		People: roles{"gus": policy.RoleGuest, "gil": policy.RoleGuest, "local": policy.RoleAdmin, "ana": policy.RoleMember}})
	r.handler = g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, err := auth.ReadBody(w, req, 0)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.read = append(r.read, req.URL.Path+" "+fault.Of(err).Code)
			return
		}
		r.read = append(r.read, req.URL.Path)
		r.mu.Unlock()
		<-r.end
		r.mu.Lock()
	}), func(_ http.ResponseWriter, req *http.Request, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.read = append(r.read, req.URL.Path+" "+fault.Of(err).Code)
	})
	return r
}

// send sends a body and returns what has been read by now.
func (r *reading) send(key, path, body string) string {
	req := httptest.NewRequest("POST", "http://localhost/"+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer sk-steward-"+key)
	req.Header.Set("Content-Type", "application/json")
	go r.handler.ServeHTTP(httptest.NewRecorder(), req)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.read, ",")
}

func TestLargeBodiesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := `"`+strings.Repeat("a", 5<<20)+`"`, `"a"`
		r := newReading(auth.IntakeOptions{})
		for _, c := range []struct{ key, path, body, want string }{
			{"1", "a", large, "/a"},
			{"1", "b", large, "/a"},                                  // waits for a, of the same guest
			{"2", "c", large, "/a"},                                  // waits for a, because guests share their room
			{"1", "d", small, "/a,/d"},                               // small ones never wait
			{"3", "e", large, "/a,/d,/e"},                            // a member has other room
			{"0", "f", large, "/a,/d,/e,/f"},                         // and the owner needs none
			{"1", "g", large + large, "/a,/d,/e,/f,/g too_large"},    // more than a guest may send at all
			{"0", "h", large + large, "/a,/d,/e,/f,/g too_large,/h"}, // the owner may
		} {
			if got := r.send(c.key, c.path, c.body); got != c.want {
				t.Errorf("after %s: %s, want %s", c.path, got, c.want)
			}
		}
		close(r.end)
		synctest.Wait()
		r.mu.Lock()
		got := strings.Join(r.read[6:], ",")
		r.mu.Unlock()
		if got != "/b,/c" && got != "/c,/b" {
			t.Errorf("those that waited: %s", got)
		}
	})
}

func TestManyTinyValuesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReading(auth.IntakeOptions{})
		close(r.end)
		if got := r.send("1", "a", "["+strings.Repeat(`{"a":1},`, 100_000)+"1]"); got != "/a too_many_values" {
			t.Error(got)
		}
		if got := r.send("1", "b", `["`+strings.Repeat(`{\"a\":1},`, 100_000)+`"]`); got != "/a too_many_values,/b" {
			t.Errorf("a text is one value: %s", got)
		}
	})
}

func TestRequestsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReading(auth.IntakeOptions{})
		for range 64 {
			r.send("1", "a", `1`)
		}
		if got := r.send("1", "b", `1`); !strings.HasSuffix(got, ",/b too_many_requests") {
			t.Error(got)
		}
		if got := r.send("0", "c", `1`); !strings.HasSuffix(got, ",/c") {
			t.Error("the owner has to wait")
		}
		close(r.end)
		synctest.Wait()
		if got := r.send("1", "d", `1`); !strings.HasSuffix(got, ",/d") {
			t.Error("what has ended still counts")
		}
	})
}

func TestTheQuotaOfADay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	i := auth.NewIntake(auth.IntakeOptions{GuestDay: 100_000, OtherDay: 0, Now: func() time.Time { return now },
		Stored: func(_ context.Context, user string, since time.Time) (int64, error) {
			if user != "gus" || !since.Equal(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)) {
				t.Errorf("%s since %s", user, since)
			}
			return 10_000, nil
		}})
	g := auth.New(auth.Options{Keys: keys{"sk-steward-1": "gus", "sk-steward-3": "ana"}, Intake: i, People: roles{"gus": policy.RoleGuest, "ana": policy.RoleMember}})
	gus, _ := let(t, g, "sk-steward-1")
	ana, _ := let(t, g, "sk-steward-3")
	left := func(want int64) {
		t.Helper()
		if got, err := gus.StorageLeft(t.Context()); err != nil || got != want {
			t.Errorf("%d left, want %d (%v)", got, want, err)
		}
	}
	left(90_000)
	i.CountStored(resource.UserSpace("gus"), "agent:x", 1, 20_000)
	i.CountStored(resource.GroupSpace("family"), "gus", 2, 0)
	left(90_000 - 2*20_000 - 512 - 2*512)
	if err := gus.Store(t.Context(), 20_000); err != nil {
		t.Error(err)
	}
	if err := gus.Store(t.Context(), 25_000); !fault.HasCode(err, "storage_used_up") || !fault.Is(err, fault.Exhausted) {
		t.Errorf("%v", err)
	}
	i.Forget("gus")
	left(90_000)
	now = now.AddDate(0, 0, 1)
	left(100_000)
	if got, err := ana.StorageLeft(t.Context()); got != math.MaxInt64 || err != nil {
		t.Errorf("%d %v", got, err)
	}
}

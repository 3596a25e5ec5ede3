package wyoming

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func TestSessionsEndWhenNobodySpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions{idle: 10 * time.Minute, byKey: map[string]*session{}}
		first := s.of("kitchen")
		time.Sleep(9 * time.Minute)
		if s.of("kitchen") != first || s.of("hall") == first {
			t.Error("a session is not that of a device")
		}
		time.Sleep(9 * time.Minute)
		if s.of("kitchen") != first {
			t.Error("a session that is used ends")
		}
		time.Sleep(11 * time.Minute)
		second := s.of("kitchen")
		if second == first {
			t.Error("a session that is not used goes on")
		}
		s.forget("kitchen", first) // which is another one by now
		if s.of("kitchen") != second {
			t.Error("another session was forgotten")
		}
		if s.forget("kitchen", second); s.of("kitchen") == second {
			t.Error("a forgotten session goes on")
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions{idle: time.Hour, byKey: map[string]*session{}}
		used := s.of("used")
		for i := range 3 * maxSessions {
			time.Sleep(time.Millisecond)
			s.of(fmt.Sprint(i))
			s.of("used")
		}
		if len(s.byKey) != maxSessions || s.of("used") != used {
			t.Errorf("%d sessions; the one in use is kept: %v", len(s.byKey), s.byKey["used"] == used)
		}
	})
}

func TestDeviceOf(t *testing.T) {
	for context, want := range map[string]string{
		`{"conversation_id":"a","device_id":"d","satellite_id":"s"}`: "device_id:d",
		`{"conversation_id":"b","satellite_id":"s"}`:                 "satellite_id:s",
		`{"conversation_id":"b","user_id":"u"}`:                      "user_id:u",
		`{"conversation_id":"b"}`:                                    "",
		`{"device_id":7}`:                                            "",
		`null`:                                                       "",
		``:                                                           "",
	} {
		if got := deviceOf(jsontext.Value(context)); got != want {
			t.Errorf("%s: %q, want %q", context, got, want)
		}
	}
}

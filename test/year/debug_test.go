package year

import (
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/record"
	"steward/internal/store"
)

func TestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := live(t, 1, 40, 5)
		w := newWorld(t, l, true)
		w.open()
		w.say("", "My bank is Sparbank. What a day.")
		w.say("", "Read http://127.0.0.1:8080/1")
		w.say("", "Remember that my dog is called Waffles.")
		time.Sleep(time.Minute)
		w.say("", "What is my bank?")
		w.say("", "Where do I live?")
		for it, err := range store.Items(t.Context(), w.local.Store, store.ForUser(w.local.User), store.Query{Type: record.TypeMessage, Limit: 100}) {
			w.check(err)
			t.Logf("%s", it.Body)
		}
		for it, err := range store.Items(t.Context(), w.local.Store, store.ForUser(w.local.User), store.Query{Type: record.TypeFact, Limit: 100}) {
			w.check(err)
			t.Logf("%s", it.Body)
		}
		t.Logf("%s", w.logs.String())
	})
}

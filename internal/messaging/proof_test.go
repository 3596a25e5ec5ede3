package messaging_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/channel"
	"steward/internal/store"
)

// storm is what happens to one account in the proof.
type storm struct {
	messages, people, drops, late, kills int
	repeatable                           bool
}

// TestNothingIsLostAndNothingAnsweredTwice sends many messages of several people through a service that
// loses connections, delivers twice, late and out of order, asks for pauses and loses requests, to a Steward
// that is killed at random commits.
func TestNothingIsLostAndNothingAnsweredTwice(t *testing.T) {
	for _, s := range storms() {
		t.Run(fmt.Sprintf("%d messages, repeatable %v", s.messages, s.repeatable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { s.run(t) })
		})
	}
}

func (x storm) run(t *testing.T) {
	x.over(t, newService(channel.Limits{Text: 4000, SendEvery: 20 * time.Millisecond, Buttons: 3, Repeatable: x.repeatable}), nil)
}

// over runs the storm over a service, whose adapter is made by renew in each life; nil: it is its own.
func (x storm) over(t *testing.T, s *service, renew func() channel.Channel) {
	st := sqliteIn(t)
	defer st.Close() //nolint:errcheck // the test is over
	w := newWorld(t, map[string]*service{"phone": s})
	w.disk, w.renew = st, renew
	w.open(0, false)
	for i := range x.people {
		w.pair("phone", fmt.Sprint("p", i), "user")
	}
	w.close()

	chance := rand.New(rand.NewPCG(1123, uint64(x.messages)))
	s.mu.Lock()
	s.chance, s.drops, s.late = rand.New(rand.NewPCG(1124, uint64(x.messages))), x.drops, x.late
	greeted := len(s.posts)
	s.mu.Unlock()
	for i := range x.messages {
		s.say(by(fmt.Sprint("p", chance.IntN(x.people)), fmt.Sprint("u", i), fmt.Sprint("say answer ", i)))
	}
	lives := 0
	began := time.Now()
	for {
		left, commits := 0, x.messages*3
		if lives < x.kills {
			left = 1 + chance.IntN(2*commits/x.kills)
		}
		lives++
		w.open(left, chance.IntN(2) == 0)
		over := w.watch()
		w.close()
		if over {
			break
		}
		if time.Since(began) > 100*24*time.Hour {
			t.Fatal("it does not end")
		}
	}
	t.Logf("%d lives, %v of virtual time, %d posts", lives, time.Since(began), len(s.posts))
	if lives < 2 {
		t.Error("the process was never killed")
	}
	x.judge(t, w, s, greeted)
}

// watch waits until all is done, or the process is killed.
func (w *world) watch() (over bool) {
	for {
		select {
		case <-w.store.dead:
			return false
		case <-time.After(10 * time.Second):
		}
		open := w.services["phone"].left()
		list, err := w.engine.Channels(context.Background())
		if err != nil {
			continue
		}
		for _, c := range list {
			open += c.Received + c.Unsent
		}
		if open == 0 && !w.store.isDead() {
			return true
		}
	}
}

// judge compares what people see with what they wrote.
func (x storm) judge(t *testing.T, w *world, s *service, greeted int) {
	doubtful := map[string]bool{}
	w.open(0, false)
	defer w.close()
	for _, user := range []string{"user"} {
		for it, err := range store.Items(t.Context(), w.disk, store.ForUser(user), store.Query{Type: "messaging.Post", State: "uncertain"}) {
			if err != nil {
				t.Fatal(err)
			}
			text := string(it.Body)
			i := strings.Index(text, `"text":"`) + len(`"text":"`)
			text = text[i : i+strings.Index(text[i:], `"`)]
			doubtful[text[max(0, strings.LastIndex(text, "answer ")):]] = true
		}
	}
	listed, err := w.engine.Outbox(t.Context(), "user", false)
	if err != nil || len(doubtful) <= 200 && len(listed) != len(doubtful) || slices.ContainsFunc(listed, func(p client.ChannelPost) bool { return p.State != "uncertain" }) {
		t.Errorf("%d posts are listed and %d uncertain: %v", len(listed), len(doubtful), err)
	}
	// A turn during which Steward was killed twice waits for a person: its message is listed as unanswered.
	unanswered, err := w.engine.Inbox(t.Context(), "user", false)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, u := range unanswered {
		if u.State != "unanswered" || !strings.Contains(u.Reason, "parked") {
			t.Errorf("%+v", u)
		}
		open["answer "+strings.TrimPrefix(u.ID, "u")] = true
	}
	times := map[string]int{}
	order := map[string][]string{} // the answers of a chat
	for _, p := range s.posts[greeted:] {
		text := p.text()
		if i := strings.LastIndex(text, "\n\nanswer "); i >= 0 { // a note stands before it
			text = text[i+2:]
		}
		if !strings.HasPrefix(text, "answer ") { // why there is no answer
			continue
		}
		times[text]++
		order[p.Outgoing.At.Chat] = append(order[p.Outgoing.At.Chat], text)
	}
	lost, twice, unsure := 0, 0, 0
	for i := range x.messages {
		text := "answer " + strconv.Itoa(i)
		switch n := times[text]; {
		case n > 1:
			twice++
		case n == 0 && !doubtful[text] && !open[text]:
			lost++
		case doubtful[text]:
			unsure++
		}
	}
	if lost > 0 || twice > 0 || len(times) > x.messages {
		t.Errorf("%d lost, %d answered twice, %d texts", lost, twice, len(times))
	}
	if x.repeatable && unsure > 0 {
		t.Errorf("%d are uncertain at a service that recognizes repeated keys", unsure)
	}
	if s.tooSoon > 0 {
		t.Errorf("%d messages came sooner than the service allows", s.tooSoon)
	}
	if s.drops > 0 || s.late > 0 && x.messages >= 10_000 { // chance cannot leave so many
		t.Errorf("%d connections were not lost, and %d updates not late", s.drops, s.late)
	}
	t.Logf("%d uncertain, %d unanswered", unsure, len(open))
	for chat, want := range w.accepted(t) { // the answers come in the order in which the messages were recorded
		want = slices.DeleteFunc(want, func(text string) bool { return times[text] == 0 })
		if got := order[chat]; !slices.Equal(got, want) {
			t.Errorf("%s shows %d answers in another order than the %d messages arrived:\n%q\n%q", chat, len(got), len(want), got, want)
		}
	}
}

// accepted returns the answers that each chat should show, in the order in which its messages were recorded.
func (w *world) accepted(t *testing.T) map[string][]string {
	type entry struct {
		ID      string          `json:"id"`
		Order   int64           `json:"order"`
		Address channel.Address `json:"address"`
	}
	var list []entry
	for it, err := range store.Items(t.Context(), w.disk, store.ForUser("user"), store.Query{Type: "messaging.Update"}) {
		var x entry
		if err == nil {
			err = json.Unmarshal(it.Body, &x)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.Order, b.Order) })
	out := map[string][]string{}
	for _, x := range list {
		out[x.Address.Chat] = append(out[x.Address.Chat], "answer "+strings.TrimPrefix(x.ID, "u"))
	}
	return out
}

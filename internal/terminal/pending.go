package terminal

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
)

// Waiting yields the agents and sources that wait for an approval, at once and
// after each change. It reconnects for as long as necessary, because the
// conversation already tells the person that Steward is gone.
func Waiting(ctx context.Context, c *client.Client) iter.Seq2[[]catalog.Listing, error] {
	return func(yield func([]catalog.Listing, error) bool) {
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := watchWaiting(ctx, c, yield)
			var broke client.BrokenError
			if err == nil || ctx.Err() != nil {
				return
			} else if !errors.As(err, &broke) {
				yield(nil, err)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// watchWaiting listens over one connection until it breaks. It returns nil if
// the consumer stopped the loop.
func watchWaiting(ctx context.Context, c *client.Client, yield func([]catalog.Listing, error) bool) error {
	s, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	// On a new connection, Steward sends the list only if it is not empty. This request
	// also shows that nothing waits any more, such as after a reconnect.
	if err := s.Send(ctx, map[string]string{"type": "agents", "id": "1"}); err != nil {
		return err
	}
	for {
		var f struct {
			Type   string
			Agents []catalog.Listing
		}
		if err := s.Receive(ctx, &f); err != nil {
			return err
		}
		if (f.Type == "agents" || f.Type == "agents_waiting") && !yield(catalog.Waiting(f.Agents), nil) {
			return nil
		}
	}
}

// pending holds the questions about agents and sources. A question is shown above
// the input line. A key answers it only if it cannot be a part of typed text: the
// question has been visible for a while, and the keyboard is idle before the key
// and after it.
type pending struct {
	waiting []catalog.Listing
	asked   map[string]bool // questions that were answered in this chat
	offer   *offer          // what the person is asked about now
	told    bool            // the person may not decide, and is only informed

	line    string    // the question as it is shown
	since   time.Time // since when it is shown
	key     string    // the key that answers it, until the keyboard has rested
	keys    int       // counts these keys
	updates chan waitingMsg
}

// offer is a group of agents and sources that the person is asked about
// together: one of them, followed by those below it.
type offer struct {
	candidates []candidate
	stage      stage
	named      bool // the person named it, so it need not be waiting
	each       bool // ask about one after the other
	errs       []error
}

// candidate is an agent or a source, with the inspection that was shown.
type candidate struct {
	catalog.Listing
	shown catalog.Inspection
}

// stage is the progress of an offer.
type stage int

const (
	offered        stage = iota // the person is asked whether to look at it
	looking                     // Steward inspects it
	inspectedStage              // it was inspected, and is shown next
	allowing                    // the person is asked whether to allow it
	deciding                    // the answer is being sent
)

// The messages about approvals.
type (
	waitingMsg struct {
		waiting []catalog.Listing
		err     error
	}
	answeredMsg struct{ keys int }
)

// resting is how long the keyboard must be idle after an answer. If the person
// types on, the key was the beginning of a text.
const resting = 350 * time.Millisecond

// followWaiting starts to watch what waits for an approval.
func (m *liveScreen) followWaiting() tea.Cmd {
	m.pend.updates = listen(m, Waiting(m.ctx, m.opt.Client), func(list []catalog.Listing, err error) waitingMsg { return waitingMsg{list, err} })
	return heard(m.pend.updates)
}

// listen watches for news, and makes each of them a message.
func listen[T, M any](m *liveScreen, news iter.Seq2[T, error], message func(T, error) M) chan M {
	out := make(chan M)
	m.watchers.Go(func() {
		defer close(out)
		for x, err := range news {
			select {
			case out <- message(x, err):
			case <-m.ctx.Done():
				return
			}
		}
	})
	return out
}

// heard waits for the next message of listen, if another one comes.
func heard[M any](in <-chan M) tea.Cmd {
	return func() tea.Msg {
		if message, ok := <-in; ok {
			return message
		}
		return nil
	}
}

func (m *liveScreen) handleWaiting(h waitingMsg) tea.Cmd {
	if h.err != nil {
		m.fail(h.err)
		return heard(m.pend.updates)
	}
	m.pend.waiting = h.waiting
	if o := m.pend.offer; o != nil && o.stage == offered {
		m.pend.offer = nil // settle makes a new one from what waits now
	}
	return heard(m.pend.updates)
}

// still reports whether everything in an offer waits unchanged.
func (p *pending) still(o *offer) bool {
	return !slices.ContainsFunc(o.candidates, func(t candidate) bool {
		return !slices.ContainsFunc(p.waiting, func(l catalog.Listing) bool { return l.Question() == t.Question() })
	})
}

// groups groups what waits: each entry with the entries below it. In waiting, a
// parent must come before its children.
func groups(waiting []catalog.Listing) (out [][]candidate) {
	for _, l := range waiting {
		if n := len(out) - 1; n >= 0 && strings.HasPrefix(l.Path, out[n][0].Path+"/") {
			out[n] = append(out[n], candidate{Listing: l})
		} else {
			out = append(out, []candidate{{Listing: l}})
		}
	}
	return out
}

// open returns the groups that the person was not asked about yet.
func (p *pending) open() [][]candidate {
	return slices.DeleteFunc(groups(p.waiting), func(g []candidate) bool { return p.asked[g[0].Question()] })
}

// mark remembers that the person has been asked.
func (p *pending) mark(things []candidate) {
	if p.asked == nil {
		p.asked = map[string]bool{}
	}
	for _, t := range things {
		p.asked[t.Question()] = true
	}
}

// continueQuestions continues with the questions as soon as nothing else is going on. It is
// called after each message.
func (m *liveScreen) continueQuestions() {
	p := &m.pend
	if o := p.offer; o != nil && (o.stage == inspectedStage || o.stage == allowing) && m.idle() {
		if !o.named && !p.still(o) {
			p.offer = nil
			m.printNote(Visible(o.name()) + " was decided elsewhere, or has changed")
		} else if o.stage == inspectedStage {
			m.showInspected(o)
		}
	}
	if p.offer == nil && m.canAsk() {
		if next := p.open(); p.told {
			m.printWaiting(next)
		} else if len(next) > 0 {
			p.offer = &offer{candidates: next[0]}
		}
	}
	line := ""
	if m.asking() {
		line = m.question()
	}
	if line == p.line {
		return
	}
	if p.key != "" { // the question that the key answered is gone
		m.input.InsertString(p.key)
	}
	p.line, p.since, p.key = line, m.now(), ""
}

// idle reports whether no turn runs and no call waits for an answer.
func (m *liveScreen) idle() bool {
	a, _ := m.turn.pending()
	return m.ready && !m.leaving && !m.busy() && a == nil
}

// canAsk reports whether the person may be asked something. Nobody is
// interrupted in a turn or while typing.
func (m *liveScreen) canAsk() bool {
	return m.idle() && m.input.Value() == "" && m.editing == nil && len(m.turn.out) == 0 && !m.printing
}

// asking reports whether a question is shown.
func (m *liveScreen) asking() bool {
	o := m.pend.offer
	return o != nil && (o.stage == offered || o.stage == allowing) && m.canAsk()
}

// working reports whether an inspection or the sending of an answer is in progress.
func (p *pending) working() bool {
	return p.offer != nil && (p.offer.stage == looking || p.offer.stage == deciding)
}

// handleQuestionKey handles a key if it belongs to a question, and reports whether it does.
func (m *liveScreen) handleQuestionKey(name string, now, before time.Time) (tea.Cmd, bool) {
	p := &m.pend
	if key := p.key; key != "" {
		p.key = ""
		switch name {
		case "enter":
			return m.answerOffer(key), true
		case "esc", "ctrl+c", "backspace":
			return nil, true
		}
		m.input.InsertString(key)
		return nil, false
	}
	if !m.asking() || now.Sub(before) < quiet || now.Sub(p.since) < quiet {
		return nil, false
	}
	if name == "esc" {
		return m.answerOffer("n"), true
	}
	if len(name) != 1 || !strings.Contains(p.offer.answers(), name) {
		return nil, false
	}
	p.key = name
	p.keys++
	n := p.keys
	return m.tick(resting, func(time.Time) tea.Msg { return answeredMsg{n} }), true
}

// rested is called when the keyboard has been idle for long enough after an answer.
func (m *liveScreen) rested(a answeredMsg) tea.Cmd {
	p := &m.pend
	key := p.key
	if key == "" || a.keys != p.keys {
		return nil
	}
	p.key = ""
	return m.answerOffer(key)
}

// answers returns the keys that answer an offer.
func (o *offer) answers() string {
	if o.stage == allowing && len(o.subject()) > 1 {
		return "yndo"
	}
	return "ynd"
}

// subject returns what the question is about.
func (o *offer) subject() []candidate {
	if o.each {
		return o.candidates[:1]
	}
	return o.candidates
}

func (o *offer) name() string { return o.candidates[0].Path }

func (m *liveScreen) answerOffer(key string) tea.Cmd {
	o := m.pend.offer
	switch {
	case key == "y" && o.stage == offered:
		return m.inspect(o)
	case key == "y":
		return m.decideOffer(o, "POST /agents/approve", o.subject())
	case key == "d":
		return m.decideOffer(o, "POST /agents/deny", o.candidates[:1])
	case key == "o":
		o.each = true
	default:
		m.printNote("not now: " + Visible(o.name()) + "; /approve " + Visible(o.name()) + " asks again")
		m.removeCandidate(o, true)
	}
	return nil
}

// removeCandidate removes the subject from an offer; with below, also what is below
// it.
func (m *liveScreen) removeCandidate(o *offer, below bool) {
	first := o.name()
	var rest []candidate
	for _, t := range o.candidates {
		if !o.each || t.Path == first || below && strings.HasPrefix(t.Path, first+"/") {
			m.pend.mark([]candidate{t})
		} else {
			rest = append(rest, t)
		}
	}
	o.candidates, o.stage = rest, allowing
	if len(rest) == 0 {
		m.pend.offer = nil
	}
}

// inspect fetches what an offer is about. Inspection may start programs.
func (m *liveScreen) inspect(o *offer) tea.Cmd {
	o.stage = looking
	things := o.candidates
	return func() tea.Msg {
		var found []candidate
		var errs []error
		for _, t := range things {
			var insp catalog.Inspection
			if err := m.opt.Client.Call(m.ctx, "POST /agents/inspect", nil, map[string]string{"path": t.Path}, &insp); err == nil {
				found = append(found, candidate{insp.Listing, insp})
			} else if errs = append(errs, err); len(found) == 0 {
				break // what is below needs the one above
			}
		}
		return m.about(o, func() {
			m.pend.mark(o.candidates[len(found):]) // what cannot be inspected is not asked about again
			o.candidates, o.errs, o.stage = found, errs, inspectedStage
		})
	}
}

// about returns a continuation that calls do if o is still the current offer.
func (m *liveScreen) about(o *offer, do func()) continuation {
	return func() tea.Cmd {
		if m.pend.offer == o {
			do()
		}
		return nil
	}
}

// decideOffer sends Steward the person's decision about things, in their order.
func (m *liveScreen) decideOffer(o *offer, route string, things []candidate) tea.Cmd {
	o.stage = deciding
	return func() tea.Msg {
		var done []catalog.Listing
		var err error
		for _, t := range things {
			in := map[string]string{"path": t.Path}
			if route == "POST /agents/approve" {
				in["hash"] = t.shown.Hash
			}
			var l catalog.Listing
			if err = m.opt.Client.Call(m.ctx, route, nil, in, &l); err != nil {
				break
			}
			done = append(done, l)
		}
		return m.about(o, func() {
			if err == nil {
				m.printDecisions(done)
				m.removeCandidate(o, done[0].Status == catalog.Denied)
				return
			}
			m.pend.told = m.pend.told || fault.HasCode(err, "admin_only")
			m.fail(err)
			m.pend.mark(o.candidates[len(done) : len(done)+1]) // once it changes, it is a new question
			m.pend.offer = nil
		})
	}
}

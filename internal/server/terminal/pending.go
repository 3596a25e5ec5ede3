package terminal

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
)

// Waiting tells which agents and sources wait for an approval: as it is, and
// again whenever that becomes otherwise. A connection that breaks is made again
// as long as it takes: who chats learns elsewhere that Steward is gone.
func Waiting(ctx context.Context, c *client.Client) iter.Seq2[[]catalog.Listing, error] {
	return func(yield func([]catalog.Listing, error) bool) {
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := hearWaiting(ctx, c, yield)
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

// hearWaiting listens over one connection until it breaks (nil: until the
// consumer has enough).
func hearWaiting(ctx context.Context, c *client.Client, yield func([]catalog.Listing, error) bool) error {
	s, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	// What waits is told when there is something; that nothing does, the list
	// tells, after a connection that broke too.
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

// pending is what the person is asked about agents and sources.
type pending struct {
	waiting []catalog.Listing
	asked   map[string]bool // questions that were answered in this chat
	offer   *offer          // what the person is asked about now
	told    bool            // the person may not decide, and is only told

	line  string    // the question that stands there
	since time.Time // since when
	key   string    // its answer, if nothing is typed behind it
	keys  int       // counts answers
	heard chan heardMsg
}

// offer is something that is asked about, with what waits below it.
type offer struct {
	things []thing // the one above first
	stage  stage
	named  bool // by the person: it need not be waiting
	each   bool // one by one
	errs   []error
}

// thing is an agent or a source, and what was shown of it.
type thing struct {
	catalog.Listing
	shown catalog.Inspection
}

// stage is how far an offer is.
type stage int

const (
	offered  stage = iota // look at it?
	looking               // what it is, is being found out
	looked                // and is to be printed
	allowing              // allow it?
	deciding              // the answer is on its way
)

// The messages about approvals.
type (
	heardMsg struct {
		waiting []catalog.Listing
		err     error
		over    bool
	}
	answeredMsg struct{ keys int }
)

// resting is how long the keyboard has to rest after an answer: who types on
// has not answered but begun to write.
const resting = 350 * time.Millisecond

// followWaiting begins to listen to what waits.
func (m *chat) followWaiting() tea.Cmd {
	out := make(chan heardMsg)
	m.pend.heard = out
	m.watchers.Go(func() {
		defer close(out)
		for list, err := range Waiting(m.ctx, m.opt.Client) {
			select {
			case out <- heardMsg{waiting: list, err: err}:
			case <-m.ctx.Done():
				return
			}
		}
	})
	return m.hearWaiting()
}

func (m *chat) hearWaiting() tea.Cmd {
	in := m.pend.heard
	return func() tea.Msg {
		h, ok := <-in
		h.over = !ok
		return h
	}
}

func (m *chat) hear(h heardMsg) tea.Cmd {
	switch {
	case h.over:
		return nil
	case h.err != nil:
		m.fail(h.err)
	default:
		m.pend.waiting = h.waiting
		if o := m.pend.offer; o != nil && o.stage == offered {
			m.pend.offer = nil // made anew of what waits now
		}
	}
	return m.hearWaiting()
}

// still reports whether all of an offer waits as it was.
func (p *pending) still(o *offer) bool {
	now := map[string]bool{}
	for _, l := range p.waiting {
		now[l.Question()] = true
	}
	for _, t := range o.things {
		if !now[t.Question()] {
			return false
		}
	}
	return true
}

// groups are what waits, each together with what waits below it.
func groups(waiting []catalog.Listing) [][]thing {
	var out [][]thing
	for _, l := range waiting { // the one above stands first
		n := len(out) - 1
		if n >= 0 && strings.HasPrefix(l.Path, out[n][0].Path+"/") {
			out[n] = append(out[n], thing{Listing: l})
			continue
		}
		out = append(out, []thing{{Listing: l}})
	}
	return out
}

// open are the groups that the person was not asked about yet.
func (p *pending) open() [][]thing {
	var out [][]thing
	for _, g := range groups(p.waiting) {
		if !p.asked[g[0].Question()] {
			out = append(out, g)
		}
	}
	return out
}

// mark remembers what the person has been asked.
func (p *pending) mark(things []thing) {
	if p.asked == nil {
		p.asked = map[string]bool{}
	}
	for _, t := range things {
		p.asked[t.Question()] = true
	}
}

// settle goes on with what is asked, once nothing else goes on. It is called
// after each message.
func (m *chat) settle() {
	p := &m.pend
	if p.offer != nil && m.idle() {
		m.goOn(p.offer)
	}
	if p.offer == nil && len(p.waiting) > 0 && m.free() {
		m.offerNext()
	}
	line := ""
	if m.asking() {
		line = m.question()
	}
	if line == p.line {
		return
	}
	if p.key != "" { // what it was to answer does not stand there any more
		m.input.InsertString(p.key)
	}
	p.line, p.since, p.key = line, m.now(), ""
}

// goOn shows what was found out, or lets go of what is not as it was any more.
func (m *chat) goOn(o *offer) {
	switch {
	case o.stage != looked && o.stage != allowing:
	case !o.named && !m.pend.still(o):
		m.pend.offer = nil
		m.say(bare(o.name()) + " was decided about elsewhere, or is not as it was any more")
	case o.stage == looked:
		m.showLooked(o)
	}
}

// offerNext begins with what the person was not asked about yet.
func (m *chat) offerNext() {
	next := m.pend.open()
	switch {
	case len(next) == 0:
	case m.pend.told:
		m.tellWaiting(next)
	default:
		m.pend.offer = &offer{things: next[0]}
	}
}

// idle reports whether nothing runs, and nothing else is asked.
func (m *chat) idle() bool {
	a, _ := m.turn.pending()
	return m.ready && !m.leaving && !m.busy() && a == nil
}

// free reports whether the person may be asked something: nobody is
// interrupted in a turn, or while typing.
func (m *chat) free() bool {
	return m.idle() && m.input.Value() == "" && m.editing == nil && len(m.queue) == 0 && !m.printing
}

// asking reports whether a question stands there.
func (m *chat) asking() bool {
	o := m.pend.offer
	return o != nil && (o.stage == offered || o.stage == allowing) && m.free()
}

// working reports whether something is found out or on its way.
func (p *pending) working() bool {
	return p.offer != nil && (p.offer.stage == looking || p.offer.stage == deciding)
}

// word takes a key for an answer, if it is meant for one: the question has
// been seen, the keyboard has rested before, and rests after it.
func (m *chat) word(name string, now, before time.Time) (tea.Cmd, bool) {
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

// rested is called when the keyboard has rested after an answer.
func (m *chat) rested(a answeredMsg) tea.Cmd {
	p := &m.pend
	key := p.key
	if key == "" || a.keys != p.keys {
		return nil
	}
	p.key = ""
	return m.answerOffer(key)
}

// answers are the keys that an offer takes.
func (o *offer) answers() string {
	if o.stage == allowing && len(o.subject()) > 1 {
		return "yndo"
	}
	return "ynd"
}

// subject is what the question is about.
func (o *offer) subject() []thing {
	if o.each {
		return o.things[:1]
	}
	return o.things
}

func (o *offer) name() string { return o.things[0].Path }

func (m *chat) answerOffer(key string) tea.Cmd {
	o := m.pend.offer
	switch {
	case key == "y" && o.stage == offered:
		return m.look(o)
	case key == "y":
		return m.allow(o)
	case key == "d":
		return m.denyOffer(o)
	case key == "o":
		o.each = true
	default:
		m.say("not now: " + bare(o.name()) + "; /approve " + bare(o.name()) + " asks again")
		m.leaveOut(o, true)
	}
	return nil
}

// leaveOut takes the subject of an offer from it; below: with what is below.
func (m *chat) leaveOut(o *offer, below bool) {
	first := o.things[0]
	gone := o.subject()
	if o.each && below {
		for _, t := range o.things[1:] {
			if strings.HasPrefix(t.Path, first.Path+"/") {
				gone = append(gone[:len(gone):len(gone)], t)
			}
		}
	}
	m.pend.mark(gone)
	var rest []thing
	for _, t := range o.things {
		if !contains(gone, t.Path) {
			rest = append(rest, t)
		}
	}
	o.things, o.stage = rest, allowing
	if len(rest) == 0 {
		m.pend.offer = nil
	}
}

func contains(things []thing, path string) bool {
	for _, t := range things {
		if t.Path == path {
			return true
		}
	}
	return false
}

// look finds out what an offer is about: it starts what has to be started.
func (m *chat) look(o *offer) tea.Cmd {
	o.stage = looking
	things := o.things
	return func() tea.Msg {
		var found []thing
		var errs []error
		for _, t := range things {
			var insp catalog.Inspection
			if err := m.opt.Client.Call(m.ctx, "POST /agents/inspect", nil, map[string]string{"path": t.Path}, &insp); err == nil {
				found = append(found, thing{insp.Listing, insp})
			} else if errs = append(errs, err); len(found) == 0 {
				break // without the one above, nothing below counts
			}
		}
		return m.about(o, func() {
			m.pend.mark(o.things[len(found):]) // what cannot be looked at is not asked about again
			o.things, o.errs, o.stage = found, errs, looked
		})
	}
}

// about does something with an offer, unless something else is asked about by
// now.
func (m *chat) about(o *offer, do func()) then {
	return func() tea.Cmd {
		if m.pend.offer == o {
			do()
		}
		return nil
	}
}

// allow approves what was shown, the one above first.
func (m *chat) allow(o *offer) tea.Cmd {
	return m.decideOffer(o, "POST /agents/approve", o.subject())
}

func (m *chat) denyOffer(o *offer) tea.Cmd {
	return m.decideOffer(o, "POST /agents/deny", o.things[:1])
}

// decideOffer tells Steward what is decided about things, in their order.
func (m *chat) decideOffer(o *offer, route string, things []thing) tea.Cmd {
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
		return m.about(o, func() { m.decided(o, done, err) })
	}
}

func (m *chat) decided(o *offer, done []catalog.Listing, err error) {
	if err != nil {
		m.pend.told = m.pend.told || fault.HasCode(err, "admin_only")
		m.fail(err)
		m.pend.mark(o.things[len(done) : len(done)+1]) // what has changed is another question
		m.pend.offer = nil
		return
	}
	m.sayDecided(done)
	m.leaveOut(o, done[0].Status == catalog.Denied)
}

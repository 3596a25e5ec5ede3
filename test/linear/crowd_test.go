//go:build long

package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/turn"
)

// member is one client of the crowd.
type member struct {
	*history
	who int
	r   *rand.Rand
}

func (h *history) fail(what kind, err error) {
	h.t.Errorf("%s: %v", what, err)
}

// write sends a message, possibly replacing another one. If twice is true, it
// sends the message twice concurrently.
func (m *member) write(c call, turn turn.Input, twice bool) {
	m.mu.Lock()
	s := sent{client: fmt.Sprintf("%d-%d", m.who, len(m.ops)), marked: m.r.IntN(3) == 0}
	m.mu.Unlock()
	s.text = fmt.Sprintf("message %s", s.client)
	turn.Conversation, turn.ClientID = m.conv, s.client
	once := func() {
		turn := turn
		turn.Content = []message.Block{&message.Text{Text: s.text}}
		at := m.start()
		acc, err := m.node.Send(at.ctx, user, turn)
		if err != nil {
			m.fail(c.kind, err)
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		c := c
		c.message = acc.Message.String()
		if acc.Duplicate {
			c.kind = again
			m.note(m.who, at, c, answer{})
			return
		}
		m.note(m.who, at, c, answer{branch: acc.Branch})
		if c.kind == replace {
			m.branches = append(m.branches, acc.Branch)
		}
		s.id = acc.Message
		m.messages = append(m.messages, s)
	}
	var wg sync.WaitGroup
	if twice {
		wg.Go(once)
	}
	once()
	wg.Wait()
}

// depart creates a branch by an operation that returns it.
func (m *member) depart(c call, do func(context.Context) (record.Branch, error)) {
	at := m.start()
	b, err := do(at.ctx)
	if err != nil {
		m.fail(c.kind, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(m.who, at, c, answer{branch: b.ID, parent: b.Parent})
	m.branches = append(m.branches, b.ID)
}

func (m *member) regenerate(of sent) {
	at := m.start()
	acc, err := m.node.Send(at.ctx, user, turn.Input{Conversation: m.conv, Regenerate: of.id})
	if err != nil {
		m.fail(regenerate, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(m.who, at, call{kind: regenerate, message: of.id.String()}, answer{branch: acc.Branch})
	m.branches = append(m.branches, acc.Branch)
}

func (m *member) read() {
	at := m.start()
	page, next, err := m.node.Messages(at.ctx, user, m.conv, "", store.MaxLimit)
	if err != nil || next != "" {
		m.fail(read, fmt.Errorf("%q %w", next, err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, e := range page {
		if e.Role != message.User {
			continue
		}
		list = append(list, e.ID.String()+states(e.Change.State == record.Archived, e.Pinned))
	}
	m.note(m.who, at, call{kind: read}, answer{list: list})
}

func (m *member) list() {
	at := m.start()
	all, preferred, err := m.node.Branches(at.ctx, user, m.conv)
	if err != nil {
		m.fail(branches, err)
		return
	}
	var names []string
	for _, b := range all {
		names = append(names, b.ID)
	}
	slices.Sort(names)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(m.who, at, call{kind: branches}, answer{branch: preferred, list: names})
}

// become archives or pins a message, or reverts that.
func (m *member) become(k kind, of sent, on bool) {
	at := m.start()
	var err error
	if k == pin {
		err = m.node.Pin(at.ctx, user, m.conv, on, of.id)
	} else {
		v := conversation.Verdict{State: record.Active}
		if on {
			v.State = record.Archived
		}
		_, err = m.node.Mark(at.ctx, user, m.conv, v, of.id)
	}
	if err != nil {
		m.fail(k, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(m.who, at, call{kind: k, message: of.id.String(), on: on}, answer{})
}

func (m *member) switchTo(branch string) {
	at := m.start()
	if err := m.node.Switch(at.ctx, user, m.conv, branch); err != nil {
		m.fail(move, err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(m.who, at, call{kind: move, target: branch}, answer{})
}

// last runs a few operations of several kinds and reads the results, after all
// other members have finished.
func (m *member) last() {
	for _, b := range []string{m.branches[len(m.branches)-1], record.MainBranch} {
		m.read()
		m.switchTo(b)
		m.list()
	}
	for range 8 {
		m.write(call{kind: send}, turn.Input{}, true)
	}
	of := m.messages[len(m.messages)-1]
	for _, k := range []kind{mark, pin} {
		m.become(k, of, true)
		m.read()
	}
}

// act runs one random operation.
func (m *member) act() {
	placed, ok := m.some(m.r, false)
	n := m.r.IntN(100)
	switch {
	case n < 22 || !ok:
		m.write(call{kind: send}, turn.Input{}, n < 5)
	case n < 30:
		m.write(call{kind: replace, target: placed.id.String()}, turn.Input{Replace: placed.id}, n < 24)
	case n < 35:
		m.regenerate(placed)
	case n < 41:
		c := call{kind: fork, message: placed.id.String(), before: n < 38}
		if n == 40 {
			c.message, placed.id = "", id.ID{}
		}
		m.depart(c, func(ctx context.Context) (record.Branch, error) {
			return m.node.Fork(ctx, user, m.conv, conversation.Fork{Message: placed.id, Before: c.before})
		})
	case n < 45:
		m.depart(call{kind: remove, message: placed.id.String()}, func(ctx context.Context) (record.Branch, error) {
			return m.node.Remove(ctx, user, m.conv, placed.id)
		})
	case n < 52:
		m.mu.Lock()
		to := m.branches[m.r.IntN(len(m.branches))]
		m.mu.Unlock()
		m.switchTo(to)
	case n < 70:
		if of, ok := m.some(m.r, true); ok {
			k := mark
			if n < 60 {
				k = pin
			}
			m.become(k, of, m.r.IntN(3) > 0)
		}
	case n < 90:
		m.read()
	default:
		m.list()
	}
}

package llm

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"steward/internal/message"
	"steward/internal/tokens"
)

// Window returns how many tokens a chain's models take, input and output
// together: the smallest that is known of them; 0 where none is. It is known
// from the configuration, from a model that refused a request as too long, or
// from what providers tell of their models.
func (m *Models) Window(chain []string) int {
	least := 0
	for _, full := range chain {
		if w := m.window(full); w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}

func (m *Models) window(full string) int {
	if w := m.cfg.Windows[full]; w > 0 {
		return w
	}
	m.mu.RLock()
	w := m.windows[full]
	m.mu.RUnlock()
	if w != 0 {
		return max(w, 0)
	}
	if provider, _, _ := strings.Cut(full, "/"); provider != "ollama" { // whose server decides, and refuses
		w = tokens.Window(full)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnWindow(full, cmp.Or(w, unknownWindow))
	return w
}

// unknownWindow says that nothing is known of a model's window.
const unknownWindow = -1

// TooLong notes that a chain's models refused a request of so many tokens,
// though their windows should have taken it.
func (m *Models) TooLong(chain []string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, full := range chain {
		if w := m.windows[full]; w <= 0 || int64(w) > n {
			m.learnWindow(full, int(n*9/10))
		}
	}
}

// learnWindow keeps a model's window; the memory of them is bounded. The
// caller holds m.mu.
func (m *Models) learnWindow(full string, n int) {
	if m.windows == nil || len(m.windows) >= maxDirect {
		m.windows = map[string]int{}
	}
	m.windows[full] = n
}

// Counter returns what counts the tokens of messages for a model, as well as
// can be now.
func (m *Models) Counter(full string) tokens.Counter { return m.learning.calibrator.For(full) }

// Calibration is what was learned of how models count.
func (m *Models) Calibration() *tokens.Calibrator { return &m.learning.calibrator }

// learning learns how models count from what their replies report. Learning
// costs a part of what a turn does, so not every reply is looked at.
type learning struct {
	calibrator tokens.Calibrator
	mu         sync.Mutex
	last       map[string]time.Time // by "provider/model"; bounded
}

// Short requests matter to no window, and many in a row tell nothing new.
const (
	learnFrom  = 2000 // tokens
	learnEvery = time.Second
)

func (l *learning) see(full string, r *Request, u message.Usage) {
	if u.Input < learnFrom || tokens.Exact(full) {
		return
	}
	now := time.Now()
	l.mu.Lock()
	late := now.Sub(l.last[full]) >= learnEvery
	if late {
		if l.last == nil || len(l.last) >= maxDirect {
			l.last = map[string]time.Time{}
		}
		l.last[full] = now
	}
	l.mu.Unlock()
	if late {
		l.calibrator.Learn(full, RequestParts(r), u.Input)
	}
}

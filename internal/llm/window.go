package llm

import (
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
	defer m.mu.RUnlock()
	return m.windows[full]
}

// TooLong notes that a chain's models refused a request of so many tokens,
// though their windows should have taken it.
func (m *Models) TooLong(chain []string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, full := range chain {
		if w := m.windows[full]; w == 0 || int64(w) > n {
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
// can be.
func (m *Models) Counter(full string) func(*message.Message) int64 {
	return tokens.Message
}

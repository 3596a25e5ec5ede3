package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm/tokens"
	"steward/internal/message"
)

const (
	// AssumedWindow stands for the window of a model of which nothing is known.
	AssumedWindow = 32_768
	// leastWindow is the smallest window that a refusal is believed, and
	// leastGuess the smallest that is concluded from one that names none.
	leastWindow = 256
	leastGuess  = 1024
	// refusalAge is how long a refusal is remembered: a server may be given more.
	refusalAge = 7 * 24 * time.Hour
	// askAgain is when a provider that told no window is asked again.
	askAgain = 10 * time.Minute
	// askTimeout is how long a call waits for what a provider tells.
	askTimeout = 2 * time.Second
)

// window is what is known of a model's window.
type window struct {
	tokens  int       // from the provider's list, or by the model's name; 0: unknown
	asked   time.Time // when its provider was asked
	refused refusal
}

// refusal is a window that a model named when it refused a request as too long.
type refusal struct {
	Tokens int       `json:"tokens"`
	At     time.Time `json:"at"`
}

// Window returns how many tokens a chain's models take, input and output
// together: the smallest that is known of them, or AssumedWindow where none is;
// 0 where only the offline model answers, which takes any. It is known from the
// configuration, from a model that refused a request as too long, or from what
// providers tell of their models.
func (m *Models) Window(chain []string) int {
	least, assumed := 0, 0
	for _, full := range chain {
		switch w := m.window(full); {
		case w > 0 && (least == 0 || w < least):
			least = w
		case w == 0 && !unbounded(full):
			assumed = AssumedWindow
		}
	}
	return cmp.Or(least, assumed)
}

// Refused returns the smallest window that one of the chain's models named
// when it refused a request; 0 where none did.
func (m *Models) Refused(chain []string) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	least := 0
	for _, full := range chain {
		if n := m.windows[full].refused.tokens(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// unbounded reports whether a model takes requests of any length.
func unbounded(full string) bool { return strings.HasPrefix(full, "offline/") }

// window returns what is known of a model's window, 0 if nothing is.
func (m *Models) window(full string) int {
	m.mu.RLock()
	w, ok := m.windows[full]
	m.mu.RUnlock()
	if !ok {
		if !strings.HasPrefix(full, "ollama/") { // whose server decides, and refuses
			w.tokens = tokens.Window(full)
		}
		m.mu.Lock()
		m.learnWindow(full, w)
		m.mu.Unlock()
	}
	n, refused := cmp.Or(m.cfg.Windows[full], w.tokens), w.refused.tokens()
	if refused > 0 && (n == 0 || refused < n || m.cfg.Windows[full] == 0) {
		return refused
	}
	return n
}

func (r refusal) tokens() int {
	if r.Tokens > 0 && time.Since(r.At) < refusalAge {
		return r.Tokens
	}
	return 0
}

// larger reports whether a model takes more than another one that has refused.
func (m *Models) larger(full, refused string) bool {
	return unbounded(full) || cmp.Or(m.window(full), AssumedWindow) > cmp.Or(m.window(refused), math.MaxInt)
}

// tooLong learns a model's window from its refusal of a request: what it
// named, or less than the request.
func (m *Models) tooLong(full string, r *Request, err error) {
	n, _ := fault.Of(err).Details["window"].(int)
	if n < leastWindow {
		n = int(min(m.count(full, r), EstimateRequest(r)) * 9 / 10) // the margin aside
		if known := m.window(full); n < leastGuess || known > 0 && known < n {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.windows[full]
	w.refused = refusal{n, time.Now().UTC().Truncate(time.Second)}
	m.learnWindow(full, w)
}

// learnWindow keeps a model's window; the memory of them is bounded. The
// caller holds m.mu.
func (m *Models) learnWindow(full string, w window) {
	if m.windows == nil || len(m.windows) >= maxDirect {
		m.windows = map[string]window{}
	}
	m.windows[full] = w
}

// Discover asks the providers of a chain's models for windows that are not
// known, for a moment and not too often.
func (m *Models) Discover(ctx context.Context, chain []string) {
	for _, full := range chain {
		if unbounded(full) || m.window(full) > 0 {
			continue
		}
		name, model, _ := strings.Cut(full, "/")
		p := m.providers[name]
		m.mu.Lock()
		w := m.windows[full]
		late := time.Since(w.asked) >= askAgain
		if late {
			w.asked = time.Now()
			m.learnWindow(full, w)
		}
		m.mu.Unlock()
		if p != nil && late {
			m.ask(ctx, p, model)
		}
	}
}

// ask asks a provider for the window of one of its models. What it cannot tell
// stays unknown.
func (m *Models) ask(ctx context.Context, p Provider, model string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var infos []Info
	var err error
	if one, ok := p.(interface {
		Show(ctx context.Context, model string) (Info, error)
	}); ok {
		infos = make([]Info, 1)
		infos[0], err = one.Show(ctx, model)
	} else {
		infos, err = p.Models(ctx)
	}
	if err != nil {
		m.cfg.Log.DebugContext(ctx, "a provider does not tell the window of its model", "provider", p.Name(), "model", model, "err", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, info := range infos {
		m.listedWindow(p.Name()+"/"+info.Name, info.Window)
	}
}

// listedWindow keeps what a provider tells of a model. The caller holds m.mu.
func (m *Models) listedWindow(full string, n int) {
	if n <= 0 {
		return
	}
	w := m.windows[full]
	w.tokens = n
	m.learnWindow(full, w)
}

// learned is what is kept of models over a restart.
type learned struct {
	Tokens  json.RawMessage    `json:"tokens"`
	Windows map[string]refusal `json:"windows,omitempty"`
}

// Learned returns what was learned of how models count and of the windows that
// they named, for Recall.
func (m *Models) Learned() ([]byte, error) {
	out := learned{Tokens: m.learning.calibrator.Save(), Windows: map[string]refusal{}}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for full, w := range m.windows {
		if w.refused.tokens() > 0 {
			out.Windows[full] = w.refused
		}
	}
	return json.Marshal(out)
}

// Recall takes up what Learned has returned, also what the Calibrator alone
// saved. A window that the configuration names stays as it is there.
func (m *Models) Recall(saved []byte) error {
	var in learned
	if err := json.Unmarshal(saved, &in); err == nil && in.Tokens != nil {
		saved = in.Tokens
	}
	m.mu.Lock()
	for full, r := range in.Windows {
		if m.cfg.Windows[full] == 0 && r.Tokens >= leastWindow && len(m.windows) < maxDirect {
			m.learnWindow(full, window{tokens: tokens.Window(full), refused: r})
		}
	}
	m.mu.Unlock()
	return m.learning.calibrator.Load(saved)
}

// Counter returns what counts tokens for a model, as well as can be now.
func (m *Models) Counter(full string) tokens.Counter { return m.learning.calibrator.For(full) }

// count returns about how many input tokens a model makes of a request, as far
// as it is calibrated, on the safe side.
func (m *Models) count(full string, r *Request) int64 {
	return m.Counter(full).Parts(RequestParts(r))
}

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
	if u.Input < learnFrom {
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

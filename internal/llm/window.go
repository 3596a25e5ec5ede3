package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm/tokens"
	"steward/internal/message"
)

const (
	// AssumedWindow is the window that is assumed for unknown models, in tokens.
	AssumedWindow = 32_768
	// minWindow is the smallest window that is accepted from a refusal, and minGuess the
	// smallest that is inferred from a refusal that names none.
	minWindow = 256
	minGuess  = 1024
	// refusalAge is how long a refusal is remembered. It expires because the server's window may be
	// raised.
	refusalAge = 7 * 24 * time.Hour
	// windowRetryAfter is how long after a fruitless request a provider is asked for its windows again.
	windowRetryAfter = 10 * time.Minute
	// askTimeout is how long a call waits for a provider's answer about windows.
	askTimeout = 2 * time.Second
)

// window is what is known of a model's context window.
type window struct {
	tokens    int       // from the provider's list, or by the model's name; 0: unknown
	asked     time.Time // when its provider was last asked
	refused   refusal
	took      int64     // tokens of the last longer request that it accepted, as estimated
	suspected int64     // likewise of the last one that it refused without saying why
	at        time.Time // when it refused that
}

// refusal is a window that a model named when it refused a request as too long.
type refusal struct {
	Tokens int       `json:"tokens"`
	At     time.Time `json:"at"`
}

// Window returns how many tokens, input and output together, the models of a chain accept: the
// smallest known window, or AssumedWindow if none is known. It returns 0 if only the offline model
// answers, which has no limit. Windows are known from the configuration, from refusals of requests
// that were too long, and from what providers report.
func (m *Models) Window(chain []string) int {
	m = m.now()
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

// KnownWindow is Window without the assumption that is made about models whose window is unknown.
func (m *Models) KnownWindow(chain []string) int {
	m = m.now()
	least := 0
	for _, full := range chain {
		if w := m.window(full); w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}

// Refused returns the smallest window that one of the chain's models named when it refused a
// request, or 0.
func (m *Models) Refused(chain []string) int {
	m = m.now()
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

// unbounded reports whether a model accepts requests of any length.
func unbounded(full string) bool { return strings.HasPrefix(full, "offline/") }

// leftToServer reports whether what a model can do is up to its server.
func (m *Models) leftToServer(full string) bool {
	provider, _, _ := strings.Cut(full, "/")
	i := m.cfg.Vendors.Index(provider)
	return i >= 0 && m.cfg.Vendors[i].UpToServer
}

// window returns the known window of a model, or 0.
func (m *Models) window(full string) int {
	m.mu.RLock()
	w, ok := m.windows[full]
	m.mu.RUnlock()
	if !ok {
		if !m.leftToServer(full) { // otherwise it decides about the window, and refuses
			w.tokens = m.cfg.Known.family(full).Window
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

// larger reports whether a model has a larger window than another one that has refused.
func (m *Models) larger(full, refused string) bool {
	return unbounded(full) || cmp.Or(m.window(full), AssumedWindow) > cmp.Or(m.window(refused), math.MaxInt)
}

// tooLong learns a model's window from its refusal of a request: the window that it named, or one
// smaller than the request.
func (m *Models) tooLong(full string, r *Request, err error) {
	n, _ := fault.Of(err).Details["window"].(int)
	if n < minWindow || int64(n) > 2*(EstimateRequest(r)+int64(r.Sampling.MaxTokens)) { // it names none, or counts something else

		n = int(min(m.count(full, r), EstimateRequest(r)) * 9 / 10) // without the margin
		if known := m.window(full); n < minGuess || known > 0 && known < n {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.windows[full]
	w.refused = refusal{n, time.Now().UTC().Truncate(time.Second)}
	m.learnWindow(full, w)
}

// guessAge is how long after such a refusal a shorter request tells that the length was the reason.
const guessAge = 2 * time.Minute

// minLong is the least length of a conversation that a refusal may be about, in tokens.
const minLong = 1000

// accepted remembers how long a request was that a model has answered. If it refused a longer one without saying
// why, the length was the reason.
func (m *Models) accepted(full string, r *Request) {
	if r.Transcript.Tokens() < minLong {
		return
	}
	n := EstimateRequest(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.windows[full]
	if w.suspected > n && w.suspected < 2*n && n >= minGuess && time.Since(w.at) < guessAge {
		w.refused = refusal{int(w.suspected * 9 / 10), time.Now().UTC().Truncate(time.Second)}
	}
	w.took, w.suspected = n, 0
	m.learnWindow(full, w)
}

// otherReasons match refusals that say what else is wrong.
var otherReasons = regexp.MustCompile(`(?i)tool|function|schema|image|audio|file|temperature|top_p|top_k|penalty|effort|thinking|reasoning|signature|` +
	`filter|policy|safety|moderation|\brole|api[ _-]?key|credit|billing|quota|permission|not (?:supported|allowed|permitted|enabled|found)|unsupported|` +
	`unrecognized|unknown|missing|required|invalid (?:value|type|json)`)

// maybeTooLong reports whether a refusal that names no reason may be about the length of the request: it is longer
// than the last one that the model accepted.
func (m *Models) maybeTooLong(full string, r *Request, err error) bool {
	if err == nil || !fault.HasCode(err, "request_refused") || r.Transcript.Tokens() < minLong || otherReasons.MatchString(fault.Of(err).Message) {
		return false
	}
	n := EstimateRequest(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.windows[full]
	if n <= w.took {
		return false
	}
	w.suspected, w.at = n, time.Now()
	m.learnWindow(full, w)
	return true
}

// tooLong reports whether a model refused a request because it is too long.
func tooLong(err error) bool { return err != nil && fault.HasCode(err, "context_too_long") }

// maybeLong is a detail of the refusal of a request that is longer than the last one that the model accepted, and
// that names no other reason.
const maybeLong = "may_be_too_long"

// TooLong reports whether a model refused a request because it is too long, or perhaps because of that.
func TooLong(err error) (certain, perhaps bool) {
	if err == nil {
		return false, false
	}
	perhaps, _ = fault.Of(err).Details[maybeLong].(bool)
	return tooLong(err), perhaps
}

// learnWindow stores a model's window. The number of stored windows is bounded. The caller holds
// m.mu.
func (m *Models) learnWindow(full string, w window) {
	if m.windows == nil || len(m.windows) >= maxDirect {
		m.windows = map[string]window{}
	}
	m.windows[full] = w
}

// Discover asks the providers of a chain's models for windows that are unknown. It waits only
// briefly, and does not ask often.
func (m *Models) Discover(ctx context.Context, chain []string) {
	m = m.now()
	for _, full := range chain {
		if unbounded(full) || m.window(full) > 0 {
			continue
		}
		name, model, _ := strings.Cut(full, "/")
		p := m.providers[name]
		m.mu.Lock()
		w := m.windows[full]
		late := time.Since(w.asked) >= windowRetryAfter
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

// ask asks a provider for the window of one of its models. If the provider cannot tell, the window
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
		m.cfg.Log.DebugContext(ctx, "a provider does not report the context window of its model", "provider", p.Name(), "model", model, "err", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, info := range infos {
		m.listedWindow(p.Name()+"/"+info.Name, info.Window)
	}
}

// listedWindow stores the window that a provider lists for a model. The caller holds m.mu.
func (m *Models) listedWindow(full string, n int) {
	if n <= 0 {
		return
	}
	w := m.windows[full]
	w.tokens = n
	m.learnWindow(full, w)
}

// learned is the saved form of what was learned about models.
type learned struct {
	Tokens  json.RawMessage    `json:"tokens"`
	Windows map[string]refusal `json:"windows,omitempty"`
}

// Learned returns what was learned about how models count tokens and about the windows that they
// named. Pass it to Recall after a restart.
func (m *Models) Learned() ([]byte, error) {
	m = m.now()
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

// Recall restores what Learned has returned. Windows that the configuration sets are not changed.
func (m *Models) Recall(saved []byte) error {
	return m.recall(saved, (*tokens.Calibrator).Load)
}

// Join adds what the Learned of another node has returned: of each model, what was learned from more requests counts.
func (m *Models) Join(saved []byte) error {
	return m.recall(saved, (*tokens.Calibrator).Join)
}

func (m *Models) recall(saved []byte, counts func(*tokens.Calibrator, []byte) error) error {
	m = m.now()
	var in learned
	if err := json.Unmarshal(saved, &in); err != nil {
		return err
	}
	m.mu.Lock()
	for full, r := range in.Windows {
		if m.cfg.Windows[full] == 0 && r.Tokens >= minWindow && len(m.windows) < maxDirect {
			m.learnWindow(full, window{tokens: m.cfg.Known.family(full).Window, refused: r})
		}
	}
	m.mu.Unlock()
	return counts(&m.learning.calibrator, in.Tokens)
}

// Counter returns the most accurate token counter that is available for a model.
func (m *Models) Counter(full string) tokens.Counter { return m.now().learning.calibrator.For(full) }

// count returns an estimate of the input tokens that a model counts for a request. It is calibrated
// as far as possible, and rather too high than too low.
func (m *Models) count(full string, r *Request) int64 {
	return m.Counter(full).Parts(RequestParts(r))
}

// learning learns how models count tokens from what their replies report. Learning costs a part of
// a turn's time, so not every reply is used.
type learning struct {
	calibrator tokens.Calibrator
	mu         sync.Mutex
	last       map[string]time.Time // by "provider/model"; bounded
}

// Short requests do not matter to any window, and many requests in quick succession add nothing
// new.
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

// RequestParts returns the token estimate of a request's input: system prompt, transcript, tools
// and schema. A tokens.Calibrator learns by comparing it with what the provider reports.
func RequestParts(r *Request) tokens.Parts {
	p := tokens.OfSystem(r.System).Add(r.Transcript.Parts()).Add(r.Tools.Parts())
	if r.Schema != nil {
		p = p.Add(tokens.OfSchema(r.Schema.JSON))
	}
	return p
}

// EstimateRequest returns an estimate of a request's input tokens that is rather too high than too
// low.
func EstimateRequest(r *Request) int64 { return RequestParts(r).Tokens() }

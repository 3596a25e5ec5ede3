package llm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm/tokens"
	"steward/internal/message"
)

// Budget limits usage. A zero field sets no limit.
type Budget struct {
	MaxTokens int64   // input and output tokens together
	MaxCost   float64 // USD
	MaxCalls  int     // of models; only a meter has this limit
}

// Spend is an amount that was used, or is reserved for a running call.
type Spend struct {
	Tokens int64
	Cost   float64 // USD; zero for models without a known price
}

// Add returns the sum.
func (s Spend) Add(t Spend) Spend { return Spend{s.Tokens + t.Tokens, s.Cost + t.Cost} }

// Minus returns the difference.
func (s Spend) Minus(t Spend) Spend { return Spend{s.Tokens - t.Tokens, s.Cost - t.Cost} }

// Meter counts the usage of one request and of everything that it leads to. Pass the same meter to
// every call in Request.Meter. It is safe for concurrent use.
type Meter struct {
	mu     sync.Mutex
	budget Budget
	spent  Spend
	calls  int // that were admitted
	above  *Meter

	account Account
}

// Account records the usage of a model call whose reply is in no message.
type Account func(model string, u message.Usage) error

// Account sets what records the usage of the request's calls that is in no message, and of requests below it
// without an account of their own.
func (m *Meter) Account(a Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.account = a
}

// Record records the usage of a call whose reply is in no message. It returns false if there is no account.
func (m *Meter) Record(model string, u message.Usage) (bool, error) {
	for ; m != nil; m = m.parent() {
		m.mu.Lock()
		a := m.account
		m.mu.Unlock()
		if a != nil {
			return true, a(model, u)
		}
	}
	return false, nil
}

// NewMeter returns a meter that limits a request to the budget.
func NewMeter(b Budget) *Meter { return &Meter{budget: b} }

// Spent returns what was used so far, plus what is reserved for running calls.
func (m *Meter) Spent() Spend {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// Add counts usage from elsewhere, for example from before a crash.
func (m *Meter) Add(s Spend) {
	for m != nil {
		m.mu.Lock()
		m.spent = m.spent.Add(s)
		above := m.above
		m.mu.Unlock()
		m = above
	}
}

// Calls returns how many model calls were admitted, those of meters below included.
func (m *Meter) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// AddCalls counts calls from elsewhere, for example from before a crash.
func (m *Meter) AddCalls(n int) {
	for ; m != nil; m = m.parent() {
		m.mu.Lock()
		m.calls += n
		m.mu.Unlock()
	}
}

// Left returns what may still be spent: the minimum over the meter's own budget and the budgets
// above it. A zero member means that there is no limit; an exhausted one is the smallest positive
// amount.
func (m *Meter) Left() Budget {
	var out Budget
	for ; m != nil; m = m.parent() {
		spent := m.Spent()
		if b := m.budget.MaxTokens; b > 0 {
			if left := max(b-spent.Tokens, 1); out.MaxTokens == 0 || left < out.MaxTokens {
				out.MaxTokens = left
			}
		}
		if b := m.budget.MaxCost; b > 0 {
			if left := max(b-spent.Cost, math.SmallestNonzeroFloat64); out.MaxCost == 0 || left < out.MaxCost {
				out.MaxCost = left
			}
		}
	}
	return out
}

// Under puts m below another meter: above also counts what m counts and has counted so far, and a
// call must fit into both budgets. A further call of Under replaces the meter above.
func (m *Meter) Under(above *Meter) {
	m.mu.Lock()
	if m.above == above {
		m.mu.Unlock()
		return
	}
	m.above = above
	spent, calls := m.spent, m.calls
	m.mu.Unlock()
	above.Add(spent)
	above.AddCalls(calls)
}

// lock locks the meter and all meters above it, and returns them, the lowest first. The caller must
// unlock them.
func (m *Meter) lock(room []*Meter) []*Meter {
	for ; m != nil; m = m.above {
		m.mu.Lock()
		room = append(room, m)
	}
	return room
}

// Limits of the output that is assumed when reserving.
const (
	// assumedOutput is reserved for a call without an output limit.
	assumedOutput = 16384
	// safeOutput is an output limit that the models of every provider accept. A call without a
	// limit gets it when less than assumedOutput is left.
	safeOutput = 4096
	// minOutput is the least output for which a call is worth making.
	minOutput = 64
)

// gate enforces the budgets before each call. It reserves an upper estimate of what the call may
// use, and corrects it when the call is over, so that parallel calls cannot overspend together.
type gate struct {
	perRequest Budget
	perDay     Budget
	perUser    map[string]Budget
	ledger     *DayLedger
	mu         sync.Mutex // held from the check to the reservation
}

// dayOf returns the budget of a user per day.
func (g *gate) dayOf(user string) Budget {
	if own, ok := g.perUser[user]; ok {
		return own
	}
	return g.perDay
}

// bounded reports whether the meter has a budget, its own or one above it.
func (m *Meter) bounded() bool {
	for ; m != nil; m = m.parent() {
		if m.budget != (Budget{}) {
			return true
		}
	}
	return false
}

func (m *Meter) parent() *Meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.above
}

// hold is the reservation for one call.
type hold struct {
	gate     *gate
	user     string
	at       time.Time
	day      *day // in the ledger
	meter    *Meter
	price    Price
	input    int64 // tokens, as accurately as they can be counted
	reserved Spend
	settled  bool
	notice   string
}

// limit is one of the budgets, with what is left of it.
type limit struct {
	budget Budget
	spent  Spend
	what   string
	resets time.Time // zero: never
}

// admit reserves what the call may use and returns the request with its output limited to what is
// left. It refuses the call if the budget does not suffice (budget_exhausted, price_unknown).
func (m *metered) admit(r *Request) (*Request, *hold, error) {
	h := &hold{gate: m.gate, user: r.User, at: time.Now(), meter: r.Meter, price: m.price}
	if h.meter == nil {
		h.meter = NewMeter(m.gate.perRequest)
	}
	if m.gate.dayOf(r.User) != (Budget{}) || h.meter.bounded() {
		h.input = m.models.count(m.name, r)
	}
	bounded, err := m.reserveOutput(r, h)
	return bounded, h, err
}

// reserveOutput reserves what a call with the hold's input may use.
func (m *metered) reserveOutput(r *Request, h *hold) (*Request, error) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	day, ends, of := g.ledger.look(r.User, h.at)
	h.day = of
	var room [4]*Meter // on the stack, for all but the deepest
	meters := h.meter.lock(room[:0])
	defer func() {
		for _, m := range meters {
			m.mu.Unlock()
		}
	}()
	var bounds [5]limit
	limits := bounds[:0]
	for _, above := range meters {
		if most := above.budget.MaxCalls; most > 0 && above.calls >= most {
			return nil, fault.New(fault.Exhausted, "budget_exhausted", "the request may call models %d times, and has done so", most).Detail("max_calls", most)
		}
		limits = append(limits, limit{above.budget, above.spent, "request", time.Time{}})
	}
	limits = append(limits, limit{g.dayOf(r.User), day, "day", ends})
	output := int64(math.MaxInt64)
	for _, l := range limits {
		if l.budget == (Budget{}) {
			continue
		}
		if l.budget.MaxCost > 0 && !m.priced {
			return nil, unpriced(m.name, l)
		}
		n := l.output(h.input, m.price)
		if n < minOutput && n < int64(wanted(r)) {
			return nil, exhausted(m.name, l, h.input, m.price)
		}
		output = min(output, n)
	}
	for _, above := range meters {
		above.calls++
	}
	if output == math.MaxInt64 { // there is no limit
		return r, nil
	}
	r = h.bound(r, output)
	h.reserved = Spend{h.input + int64(wanted(r)), m.price.most(h.input, int64(wanted(r)))}
	g.ledger.addTo(h.day, h.reserved)
	for _, m := range meters {
		m.spent = m.spent.Add(h.reserved)
	}
	return r, nil
}

// wanted returns the number of output tokens to reserve.
func wanted(r *Request) int {
	if r.Sampling.MaxTokens > 0 {
		return r.Sampling.MaxTokens
	}
	return assumedOutput
}

// bound returns the request with its output limited to what is left.
func (h *hold) bound(r *Request, left int64) *Request {
	if int64(wanted(r)) <= left {
		return r
	}
	lowered := *r
	lowered.Sampling.MaxTokens = int(left)
	if r.Sampling.MaxTokens == 0 && left >= safeOutput {
		lowered.Sampling.MaxTokens = safeOutput
		return &lowered
	}
	h.notice = fmt.Sprintf("The budget is nearly used up: this answer is bounded to %d tokens.", left)
	return &lowered
}

// output returns how many output tokens the limit leaves after the input.
func (l limit) output(input int64, p Price) int64 {
	left := int64(math.MaxInt64)
	if l.budget.MaxTokens > 0 {
		left = l.budget.MaxTokens - l.spent.Tokens - input
	}
	if l.budget.MaxCost > 0 && !p.Free() {
		money := l.budget.MaxCost - l.spent.Cost - p.most(input, 0)
		if money <= 0 {
			return 0
		}
		if out := p.rates(input).Output; out > 0 {
			left = min(left, int64(min(money/out*1e6, math.MaxInt32)))
		}
	}
	return max(left, 0)
}

func exhausted(name string, l limit, input int64, p Price) error {
	cost := p.most(input, 0)
	e := fault.New(fault.Exhausted, "budget_exhausted",
		"the budget of the %s does not cover this call of %s: its input is about %d tokens (%.4f USD), its output %d at least, and %s", l.what, name, input, cost, minOutput, l.used()).
		Detail("estimated_tokens", input).Detail("estimated_usd", cost).
		Detail("budget", l.what).Detail("spent_tokens", l.spent.Tokens).Detail("max_tokens", l.budget.MaxTokens).
		Detail("spent_usd", l.spent.Cost).Detail("max_usd", l.budget.MaxCost)
	if l.resets.IsZero() {
		return e.WithHint("raise the budget per request in the settings, or ask for less at once")
	}
	return e.Detail("resets", l.resets).
		WithHint("it resets at %s; or raise the budget per day in the settings", l.resets.Format(time.RFC3339))
}

func (l limit) used() string {
	s := ""
	if l.budget.MaxTokens > 0 {
		s = fmt.Sprintf("%d of %d tokens", l.spent.Tokens, l.budget.MaxTokens)
	}
	if l.budget.MaxCost > 0 {
		if s != "" {
			s += " and "
		}
		s += fmt.Sprintf("%.4f of %.4f USD", l.spent.Cost, l.budget.MaxCost)
	}
	return s + " are spent or reserved"
}

func unpriced(name string, l limit) error {
	return fault.New(fault.Unsupported, "price_unknown",
		"the cost of the %s is limited, but the price of %s is unknown, so the limit cannot be enforced", l.what, name).
		WithHint("add the price of %s to the settings (0 if it is free), or limit tokens instead of cost", name)
}

// settle replaces the reservation by the actual usage, once. It reports whether this was the time.
func (h *hold) settle(used Spend) bool {
	if h.settled {
		return false
	}
	h.settled = true
	correction := used.Minus(h.reserved)
	h.meter.Add(correction)
	h.gate.ledger.addTo(h.day, correction)
	return true
}

// recordLost records what a call used whose reply nobody gets.
func (m *metered) recordLost(ctx context.Context, r *Request, u message.Usage) {
	if u == (message.Usage{}) {
		return
	}
	if _, err := r.Meter.Record(m.name, u); err != nil {
		m.models.cfg.Log.WarnContext(ctx, "the usage of a model call was not recorded", "model", m.name, "error", err)
	}
}

// metered is a model behind the gate.
type metered struct {
	name   string
	next   Model
	gate   *gate
	models *Models // counts
	price  Price
	priced bool
}

// Stream implements Model.
func (m *metered) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		admitted, h, err := m.admit(r)
		if err != nil {
			yield(Event{}, err)
			return
		}
		t := usageCounter{model: m, hold: h, request: r}
		ctx, call := m.models.cfg.Telemetry.ModelCall(ctx, m.described(admitted))
		defer func() { t.end(call) }()
		defer func() {
			if h.settle(t.spend()) && t.reply == nil { // nobody gets a reply that tells of it
				m.recordLost(ctx, r, t.usage())
			}
		}()
		if h.notice != "" && !yield(Event{Kind: Notice, Text: h.notice}, nil) {
			return
		}
		o := forward(ctx, m.next, admitted, func(ev Event, err error) bool {
			t.see(ev)
			if ev.Kind == Done {
				// Settle before the last event, so that a caller who has received it sees the usage
				// counted.
				h.settle(t.spend())
			}
			return yield(ev, err)
		})
		if !o.gone {
			t.failed = o.err
			yield(Event{}, o.err)
		}
	}
}

// traced returns the name of a model's vendor in OpenTelemetry's conventions, if that is another than its own.
func (m *Models) traced(model string) string {
	provider, _, _ := strings.Cut(model, "/")
	v, _ := m.cfg.Vendors.Named(provider)
	return v.Traced
}

// described describes a call for the telemetry.
func (m *metered) described(r *Request) telemetry.ModelInfo {
	return telemetry.ModelInfo{Model: m.name, Provider: m.models.traced(m.name), MaxTokens: r.Sampling.MaxTokens, Temperature: r.Sampling.Temperature, System: r.System, Messages: r.Transcript.Messages}
}

// errAbandoned is the failure of a call whose caller has stopped reading.
var errAbandoned error = fault.New(fault.Cancelled, "abandoned", "the caller has stopped reading")

// end tells the telemetry how a call ended.
func (t *usageCounter) end(call telemetry.ModelCall) {
	if t.reply == nil {
		call.End(t.usage(), t.hold.price.Cost(t.usage()), nil, cmp.Or(t.failed, errAbandoned))
		return
	}
	u := t.reply.Usage
	if u.Input+u.Output == 0 {
		u = t.usage()
	}
	call.End(u, t.hold.price.Cost(u), &message.Message{Role: message.Assistant, Model: t.reply.Model, Stop: t.reply.Stop, Blocks: t.reply.Blocks}, nil)
}

// usageCounter computes the usage of a call: what the provider reports, or an estimate if the stream ended
// without a report.
type usageCounter struct {
	model   *metered
	hold    *hold
	request *Request
	output  int64 // estimated tokens that have come
	reply   *Reply
	failed  error // why there is no reply
}

func (t *usageCounter) see(ev Event) {
	switch ev.Kind {
	case TextDelta, ReasoningDelta, CallArgs:
		t.output += 1 + int64(len(ev.Text))/4
	case CallStart:
		t.output += 8
	case Done:
		t.reply = ev.Reply
	}
}

func (t *usageCounter) spend() Spend {
	if t.reply != nil && t.reply.Usage.Input+t.reply.Usage.Output > 0 {
		u := t.reply.Usage
		return Spend{u.Input + u.Output, t.hold.price.Cost(u)}
	}
	u := t.usage()
	return Spend{u.Input + u.Output, t.hold.price.Cost(u)}
}

// usage estimates the usage of a call whose provider did not report it.
func (t *usageCounter) usage() message.Usage {
	if t.reply == nil && t.output == 0 {
		return message.Usage{} // it failed before any output: providers charge nothing
	}
	input, output := t.hold.input, t.output
	if input == 0 {
		input = t.model.models.count(t.model.name, t.request)
	}
	if t.reply != nil {
		output = max(output, tokens.Blocks(t.reply.Blocks))
	}
	return message.Usage{Input: input, Output: output}
}

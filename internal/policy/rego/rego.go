// Package rego is the authorizer whose rules are written in Rego
// (https://www.openpolicyagent.org/docs/policy-language): the default rules that come with
// Steward, and the user's own files over them. Policies have no network, no clock and no
// randomness; they see only the question.
package rego

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
)

// Options of an Authorizer. The zero value uses only the default bundle.
type Options struct {
	// Dir holds the user's own policies, *.rego and optionally a data.json. It is created if it
	// does not exist, and watched. Empty: there are none.
	Dir string
	// Directory knows roles and groups; nil: everybody is a member of no group.
	Directory policy.Directory
	// Settings are what policies see as data.settings.
	Settings map[string]any
	// Zone returns a user's time zone. If Zone or its result is nil, the machine's zone is used.
	Zone func(user string) *time.Location
	// Timeout bounds one decision; zero: a second. A decision that takes longer is a denial.
	Timeout time.Duration
	// Quiet is how long Dir must be unchanged before it is read again; zero: a quarter of a
	// second.
	Quiet time.Duration
	// Poll is how often Dir is looked at; zero: when the system reports a change.
	Poll time.Duration
	Log  *slog.Logger // nil: slog.Default()
}

// Authorizer decides by policies. Safe for concurrent use. It never takes longer than its
// Timeout. It never fails: if it cannot decide, it denies.
type Authorizer struct {
	opt  Options
	log  *slog.Logger
	now  atomic.Pointer[program]
	bad  atomic.Pointer[fault.Error] // why the policies in Dir are not in force
	desk sync.Pool                   // of *asked, for reuse
	stop context.CancelFunc
	done chan struct{} // closed when the watch has ended; nil: there is no watch
}

var _ policy.Authorizer = (*Authorizer)(nil)

// Open prepares the policies. Faults in the user's own policies are an error here, with the file
// and line of each (policy_invalid). If faults appear later, the previous policies stay in force.
// Call Close in the end.
func Open(opt Options) (*Authorizer, error) {
	if opt.Timeout <= 0 {
		opt.Timeout = time.Second
	}
	if opt.Quiet <= 0 {
		opt.Quiet = 250 * time.Millisecond
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	j := &Authorizer{opt: opt, log: opt.Log}
	if err := makeDir(opt.Dir); err != nil {
		return nil, err
	}
	src, err := readSources(opt.Dir)
	if err != nil {
		return nil, err
	}
	p, err := compile(src, opt.Settings)
	if err != nil {
		return nil, err
	}
	j.now.Store(p)
	ctx, cancel := context.WithCancel(context.Background())
	j.stop = cancel
	if opt.Dir != "" {
		j.done = make(chan struct{})
		go j.watch(ctx, src.fingerprint)
	}
	return j, nil
}

// Close ends the watch over the policies. Decisions continue to work.
func (j *Authorizer) Close() error {
	j.stop()
	if j.done != nil {
		<-j.done
	}
	return nil
}

// Version returns the version of the policies in force.
func (j *Authorizer) Version() string { return j.now.Load().version }

// Broken returns why the policies in the user's folder are not in force, or nil if they are.
func (j *Authorizer) Broken() error {
	if f := j.bad.Load(); f != nil {
		return f
	}
	return nil
}

// Authorize implements policy.Authorizer. It never returns an error: a question that cannot be
// decided is denied, and the Reason says why. The decision's slices are shared: do not write to
// them.
func (j *Authorizer) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	p := j.now.Load()
	if q.Point == "" {
		q.Point = policy.PointTool
	}
	at := p.points[q.Point]
	if at == nil {
		return p.undecided(fault.New(fault.Invalid, "policy_point", "unknown decision point %q", q.Point)), nil
	}
	a, ok := j.desk.Get().(*asked)
	if !ok {
		a = &asked{}
	}
	defer func() {
		a.Question = policy.Question{} // it may be large
		j.desk.Put(a)
	}()
	a.Question, a.opt, a.when = q, &j.opt, time.Time{}
	if err := a.identify(ctx); err != nil {
		return p.undecided(err), nil
	}
	d := j.decide(ctx, p, at, a)
	if at.reads&readsAgents != 0 { // otherwise the acting agent makes no difference
		for i := len(q.Lineage) - 1; i >= 0 && d.Verdict != policy.Deny; i-- {
			a.Agent, a.Lineage = q.Lineage[i], q.Lineage[:i]
			d = policy.Stricter(d, j.decide(ctx, p, at, a))
		}
	}
	return a.denyForService(d), nil
}

// denyForService turns Ask into Deny for a service user, even if the question says that a person is
// present. Ask stays if nobody is said to be present: a standing approval, which only the effect
// engine knows, may cover the call. At PointIntent it stays as well.
func (a *asked) denyForService(d policy.Decision) policy.Decision {
	if d.Verdict != policy.Ask || !a.Attended || a.Point == policy.PointIntent || !a.who.Has(policy.RoleService) {
		return d
	}
	d.Verdict, d.Obligations = policy.Deny, policy.Obligations{}
	d.Reason += ", and " + a.User + " is a program that cannot approve it"
	return d
}

// undecided returns the decision for a question that cannot be decided.
func (p *program) undecided(err error) policy.Decision {
	return policy.Decision{Verdict: policy.Deny, Reason: "policy evaluation failed: " + fault.Of(err).Error(), Version: p.version}
}

// decide decides one question, from the cache if it was asked before.
func (j *Authorizer) decide(ctx context.Context, p *program, at *point, a *asked) policy.Decision {
	key, ok := at.key(a.room[:0], a)
	if ok {
		if d, found := at.known.get(key); found {
			return d
		}
	}
	d, err := j.evaluate(ctx, p, at, a)
	switch {
	case err != nil && ctx.Err() != nil: // not the policy's fault
		return p.undecided(err)
	case err != nil:
		j.log.WarnContext(ctx, "policy evaluation failed: denied", "point", string(a.Point), "user", a.User, "tool", a.Tool.Name, "error", err)
		return p.undecided(err)
	}
	if ok {
		at.known.put(key, d)
	}
	return d
}

func joined(by string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), by)
}

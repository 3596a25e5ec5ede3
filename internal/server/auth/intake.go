package auth

import (
	"bytes"
	"context"
	"io"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/internal/turn"
)

// Intake bounds what users other than the machine's own take of this machine: the memory of what they
// send, their requests and turns at the same time, and what they store in a day. The machine's own user
// is not bounded by it, and never waits for others.
//
// A body of at most smallBody bytes never waits. A larger one is read only when there is room for it:
// among all bodies of the user's class, and among the user's own. The room is taken before the body is
// read, and given back when the request, or the turn that it began, has ended. What is stored is counted
// where it is written, so it does not matter by which way it came.
//
// An Intake is safe for concurrent use. A nil Intake bounds nothing.
type Intake struct {
	o       IntakeOptions
	classes [2]*class // guests, and all others

	mu    sync.Mutex
	users [2]map[string]*user // by class, because a user may have been a guest before
}

// IntakeOptions configure an Intake.
type IntakeOptions struct {
	GuestDay, OtherDay int64 // bytes that a guest, or another user, may store in a day; 0: no limit
	// Stored returns how many bytes of a user were stored since a time, before this process counted.
	Stored func(ctx context.Context, user string, since time.Time) (int64, error)
	Now    func() time.Time // nil: time.Now
}

// class is a kind of users and its bounds.
type class struct {
	body     int64 // bytes of one body
	pool     int64 // bytes of all bodies at the same time
	chat     int   // bytes of one conversation in an import
	marks    int   // brackets, braces and commas of one body, each of which becomes a value in memory
	requests int   // of one user at the same time, with connections
	turns    int64 // of one user at the same time
	day      int64 // bytes that one user may store in a day
	room     *semaphore.Weighted
}

// The bounds of the classes. A message with an image takes about 14 times its size in memory until it has
// been answered, and a list of tiny messages up to 40 times.
const (
	smallBody  = 16 << 10
	maxWaiting = 8 // large bodies of one user that wait

	middleBody = 256 << 10        // of a frame of unknown size, before room for the largest is needed
	spareRoom  = 1 << 20          // of a user, for messages whose turns continue while a large one is read
	frameWait  = 10 * time.Second // the same connection may have to answer what its turn waits for

	guestBody, guestPool, guestChat = 6 << 20, 8 << 20, 2 << 20
	guestMarks, guestRequests       = 60_000, 64
	guestTurns                      = 8

	otherBody, otherPool, otherChat = MaxBody, 2 * MaxBody, 16 << 20
	otherMarks, otherRequests       = 1_000_000, 256
	otherTurns                      = 64
)

// user is what a user takes now, and has stored today.
type user struct {
	requests int
	waiting  int
	room     *semaphore.Weighted // of bodies
	turns    *semaphore.Weighted

	day    time.Time // the beginning of the day that stored is about
	stored int64
	known  bool                // stored includes what earlier processes have stored
	learns *semaphore.Weighted // held by who reads that from the log: others wait instead of reading it too
}

// NewIntake returns an Intake.
func NewIntake(o IntakeOptions) *Intake {
	if o.Now == nil {
		o.Now = time.Now
	}
	guests := &class{body: guestBody, pool: guestPool, chat: guestChat, marks: guestMarks, requests: guestRequests, turns: guestTurns, day: o.GuestDay}
	others := &class{body: otherBody, pool: otherPool, chat: otherChat, marks: otherMarks, requests: otherRequests, turns: otherTurns, day: o.OtherDay}
	for _, c := range []*class{guests, others} {
		c.room = semaphore.NewWeighted(c.pool)
	}
	return &Intake{o: o, classes: [2]*class{guests, others}, users: [2]map[string]*user{{}, {}}}
}

// share is a caller's share of the Intake, for one request. A nil share has no bounds.
type share struct {
	intake *Intake
	class  *class
	users  map[string]*user
	name   string

	mu   sync.Mutex
	held []func()
}

// enter begins a request of a caller. The returned function ends it.
func (i *Intake) enter(c *Caller) (leave func(), err error) {
	if i == nil || c.User == identity.Local {
		return func() {}, nil
	}
	kind := 1
	if slices.Contains(c.Roles, policy.RoleGuest) {
		kind = 0
	}
	s := &share{intake: i, class: i.classes[kind], users: i.users[kind], name: c.User}
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.user(s)
	if u.requests >= s.class.requests {
		return nil, fault.New(fault.RateLimited, "too_many_requests", "%s already has %d open requests and connections", c.User, u.requests).
			WithHint("close some, or wait until they have ended").Retrying(fault.RetryBackoff, 0)
	}
	u.requests++
	c.share = s
	return func() {
		s.release()
		i.mu.Lock()
		defer i.mu.Unlock()
		u.requests--
	}, nil
}

// user returns what is known of a user. The caller holds mu.
func (i *Intake) user(s *share) *user {
	u := s.users[s.name]
	if u == nil {
		u = &user{room: semaphore.NewWeighted(s.class.body + spareRoom), turns: semaphore.NewWeighted(s.class.turns), learns: semaphore.NewWeighted(1)}
		s.users[s.name] = u
	}
	return u
}

// release gives back what the request holds.
func (s *share) release() { s.take()() }

// take takes over what the request holds. The returned function gives it back.
func (s *share) take() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.held = nil
	return func() {
		for _, free := range held {
			free()
		}
	}
}

// bounds returns the bounds of a caller, or nil.
func (c Caller) bounds() *class {
	if c.share == nil {
		return nil
	}
	return c.share.class
}

// BodyLimit returns the size limit of a body or a frame of the caller, which is at most limit.
func (c Caller) BodyLimit(limit int64) int64 {
	if b := c.bounds(); b != nil {
		return min(limit, b.body)
	}
	return limit
}

// ImportLimit returns the size limit of one conversation that the caller imports; 0: there is none.
func (c Caller) ImportLimit() int {
	if b := c.bounds(); b != nil {
		return b.chat
	}
	return 0
}

// Reserve waits until there is room in memory for a body of n bytes and takes it. Small bodies do not
// wait. Errors: too_large, too_many_waiting (RateLimited), and those of ctx.
func (c Caller) Reserve(ctx context.Context, n int64) (release func(), err error) {
	s := c.share
	if s == nil || c.inside || n <= smallBody {
		return func() {}, nil
	}
	if n > s.class.body {
		return nil, TooLarge(s.class.body)
	}
	i := s.intake
	i.mu.Lock()
	u := i.user(s)
	if u.waiting >= maxWaiting {
		i.mu.Unlock()
		return nil, fault.New(fault.RateLimited, "too_many_waiting", "%d large messages of %s are already waiting", maxWaiting, s.name).
			WithHint("send them one after the other").Retrying(fault.RetryBackoff, 0)
	}
	u.waiting++
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		u.waiting--
		i.mu.Unlock()
	}()
	if err := u.room.Acquire(ctx, n); err != nil {
		return nil, err
	}
	if err := s.class.room.Acquire(ctx, n); err != nil {
		u.room.Release(n)
		return nil, err
	}
	return sync.OnceFunc(func() {
		s.class.room.Release(n)
		u.room.Release(n)
	}), nil
}

// keep holds something until the request ends.
func (s *share) keep(release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, release)
}

// ReserveRequest is Reserve until the end of the request.
func (c Caller) ReserveRequest(ctx context.Context, n int64) error {
	release, err := c.Reserve(ctx, n)
	if err == nil && c.share != nil {
		c.share.keep(release)
	}
	return err
}

// checkMarks refuses a body that would become too many values in memory.
func (c Caller) checkMarks(body []byte) error {
	b := c.bounds()
	if b == nil || len(body) <= b.marks || marks(body) <= b.marks {
		return nil
	}
	return fault.New(fault.TooLarge, "too_many_values", "the request has more than %d members and elements", b.marks).WithHint("send less, or split the request")
}

// marks counts the brackets, braces and commas of a JSON text outside its strings.
func marks(body []byte) (n int) {
	text, escaped := false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			text = !text
		case !text && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// dayOf returns the beginning of a day in UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// perChange is about what a change costs on the disk besides the bytes of a body: the entry of the log with its
// hashes, and the indexes.
const perChange = 512

// costOf returns about how many bytes on the disk the bodies of some changes take, with their words in the
// index of the search.
func costOf(changes int, bodies int64) int64 { return 2*bodies + perChange*int64(changes) }

// CountStored counts what was stored: n bytes in a number of changes, in a space, by an actor.
func (i *Intake) CountStored(space resource.Space, actor string, changes int, n int64) {
	name := actor
	if u, ok := space.User(); ok {
		name = u
	}
	if name == identity.Local {
		return
	}
	day := dayOf(i.o.Now())
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, users := range i.users {
		if u := users[name]; u != nil {
			u.count(day, costOf(changes, n))
		}
	}
}

func (u *user) count(day time.Time, n int64) {
	if u.day.Before(day) {
		u.day, u.stored = day, 0
	}
	u.stored += n
}

// Forget has what a user stored today read again before it counts: other nodes may have stored it.
func (i *Intake) Forget(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, users := range i.users {
		if u := users[name]; u != nil {
			u.known, u.stored = false, 0
		}
	}
}

// Store returns an error if the caller may not store n bytes more today (storage_used_up, Exhausted).
func (c Caller) Store(ctx context.Context, n int64) error {
	left, err := c.StorageLeft(ctx)
	if err != nil {
		return err
	}
	if costOf(1, n) <= left {
		return nil
	}
	return fault.New(fault.Exhausted, "storage_used_up", "%s may store %d MB a day, and %d KB are left", c.User, c.share.class.day>>20, left>>10).
		WithHint("continue tomorrow (UTC), or ask the owner of this Steward to raise limits.day_storage or limits.guest_storage")
}

// StorageLeft returns how many bytes the caller may still store today.
func (c Caller) StorageLeft(ctx context.Context) (int64, error) {
	s := c.share
	if s == nil || s.class.day == 0 {
		return math.MaxInt64, nil
	}
	i := s.intake
	day := dayOf(i.o.Now())
	i.mu.Lock()
	u := i.user(s)
	known := u.known
	i.mu.Unlock()
	if !known && i.o.Stored != nil {
		if err := i.learn(ctx, u, s.name, day); err != nil {
			return 0, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u.count(day, 0)
	return max(0, s.class.day-u.stored), nil
}

// learn counts what earlier processes have stored. Writes while it is read are counted twice, which errs on the safe
// side.
func (i *Intake) learn(ctx context.Context, u *user, name string, day time.Time) error {
	if err := u.learns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer u.learns.Release(1)
	i.mu.Lock()
	known := u.known
	i.mu.Unlock()
	if known {
		return nil
	}
	before, err := i.o.Stored(ctx, name, day)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u.known = true
	u.count(day, before)
	return nil
}

// StoredSince is for IntakeOptions.Stored: it reads the log of a store.
func StoredSince(ctx context.Context, st store.Store, user string, since time.Time) (n int64, err error) {
	sc := store.ForUser(user)
	before, err := follow.Before(ctx, st, sc, since)
	if err != nil {
		return 0, err
	}
	const page = 8 // entries, whose bodies are all in memory
	for e, err := range store.Entries(ctx, st, sc, store.LogQuery{Since: before, Limit: page}) {
		if err != nil {
			return 0, err
		}
		n += costOf(1, int64(len(e.Body)))
	}
	return n, nil
}

// Turn waits until the caller may begin another turn. The returned function must be called when the turn
// has ended, or when it was not begun.
func (c Caller) Turn(ctx context.Context) (end func(), err error) {
	s := c.share
	if s == nil {
		return func() {}, nil
	}
	s.intake.mu.Lock()
	turns := s.intake.user(s).turns
	s.intake.mu.Unlock()
	if err := turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { turns.Release(1) }), nil
}

// Bounded reports whether the caller has bounds.
func (c Caller) Bounded() bool { return c.share != nil }

// Watcher follows conversations; a runtime.Node is one.
type Watcher interface {
	Watch(ctx context.Context, user string, conversation id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
}

// maxTurn is how long a turn counts. One that waits longer, for example for an approval, holds little.
const maxTurn = 10 * time.Minute

// AwaitTurn returns when a turn has ended, ctx is done, or the turn has lasted for long.
func AwaitTurn(ctx context.Context, w Watcher, user string, acc turn.Accepted) {
	ctx, cancel := context.WithTimeout(ctx, maxTurn)
	defer cancel()
	for f, err := range w.Watch(ctx, user, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		if err != nil || f.Interaction == acc.Interaction && (f.Kind == turn.FrameComplete || f.Kind == turn.FrameError) {
			return
		}
	}
}

// pacedBody is a body that must arrive at a pace: a slow sender would keep the room of others.
type pacedBody struct {
	io.Reader
	now   func() time.Time
	until time.Time
}

const (
	bodyTime = 30 * time.Second
	bodyPace = 64 << 10 // bytes a second
)

// Read implements io.Reader.
func (r *pacedBody) Read(p []byte) (int, error) {
	if r.now().After(r.until) {
		return 0, fault.New(fault.Timeout, "body_slow", "the request did not arrive in time").WithHint("send less, or use a faster connection")
	}
	return r.Reader.Read(p)
}

// Body returns the body of a request that is read elsewhere: before more than a little of it is read, there
// must be room for a body of limit bytes, until the request ends.
func (c Caller) Body(ctx context.Context, body io.ReadCloser, limit int64) io.ReadCloser {
	if c.share == nil {
		return body
	}
	return &reservingBody{ReadCloser: body, reserve: func() error { return c.ReserveRequest(ctx, limit) }}
}

type reservingBody struct {
	io.ReadCloser
	read    int
	reserve func() error
}

// Read implements io.Reader.
func (l *reservingBody) Read(p []byte) (int, error) {
	if l.reserve == nil {
		return l.ReadCloser.Read(p)
	}
	if l.read == smallBody {
		if err := l.reserve(); err != nil {
			return 0, err
		}
		l.reserve = nil
		return l.ReadCloser.Read(p)
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), smallBody-l.read)])
	l.read += n
	return n, err
}

// pacedReader returns a reader of n bytes that must arrive at a pace.
func (c Caller) pacedReader(r io.Reader, n int64) io.Reader {
	if c.share == nil || n <= smallBody {
		return r
	}
	now := c.share.intake.o.Now
	return &pacedBody{Reader: r, now: now, until: now().Add(bodyTime + time.Duration(n/bodyPace)*time.Second)}
}

// ReadFrame reads a body of unknown size, of at most limit bytes, into buf: the first bytes of every body
// are read at once, and there must soon be room for the rest (too_many_waiting). n is what was read; more than limit means that
// the body is larger. release gives the room back.
func (c Caller) ReadFrame(ctx context.Context, buf *bytes.Buffer, r io.Reader, limit int64) (n int64, release func(), err error) {
	release = func() {}
	limit = c.BodyLimit(limit)
	if c.share != nil {
		r = c.pacedReader(r, limit)
		for _, size := range []int64{smallBody, middleBody} {
			if n >= limit || size >= limit {
				break
			}
			rest, err := buf.ReadFrom(io.LimitReader(r, size+1-n))
			n += rest
			if err != nil || n <= size { // it is as large as was read
				if err == nil {
					err = c.checkMarks(buf.Bytes())
				}
				return n, release, err
			}
			release() // never wait for more while holding something
			more := limit
			if size == smallBody {
				more = min(limit, middleBody)
			}
			if release, err = c.reserveBriefly(ctx, more); err != nil {
				return n, func() {}, err
			}
		}
	}
	rest, err := buf.ReadFrom(io.LimitReader(r, limit+1-n))
	n += rest
	if err == nil && n <= limit {
		err = c.checkMarks(buf.Bytes())
	}
	return n, release, err
}

// reserveBriefly is Reserve for a frame: it does not wait for long.
func (c Caller) reserveBriefly(ctx context.Context, n int64) (release func(), err error) {
	soon, cancel := context.WithTimeout(ctx, frameWait)
	defer cancel()
	release, err = c.Reserve(soon, n)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		err = fault.New(fault.RateLimited, "too_many_waiting", "too many large messages are waiting").
			WithHint("send it again when earlier large messages have been processed").Retrying(fault.RetryBackoff, 0)
	}
	return release, err
}

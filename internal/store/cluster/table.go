package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// TypePiece is the type of the records: that of a user in his space, that of a duty in the system space.
const TypePiece = "cluster.Piece"

// The states of a record. A piece that is over has the state "".
const (
	Waiting = "cluster.waiting"
	Held    = "cluster.held"
)

// record is the body of a record.
type record struct {
	Labels []string `json:"labels,omitzero"` // that its worker must have
	Holder string   `json:"holder,omitzero"` // name of a node
	// Pointer is the sequence number by which JetStream hands out the piece; zero: that of this version.
	Pointer uint64 `json:"pointer,omitzero"`
}

// entry is a version of a record.
type entry struct {
	Piece   Piece
	At      resource.URI
	Version uint64
	Seq     uint64
	State   string
	record
}

// pointer is the sequence number by which JetStream hands out this version.
func (e entry) pointer() uint64 {
	if e.Pointer != 0 {
		return e.Pointer
	}
	return e.Seq
}

// duty begins the ids of the records of duties. Those of users begin as their spaces do.
const duty = "duty:"

// URI returns the place of the record of a piece, and whether it can have one.
func (p Piece) URI() (resource.URI, bool) {
	if p.Duty != "" {
		u, err := resource.Parse("cld:" + TypePiece + "." + duty + p.Duty)
		return u, err == nil && p.Space == ""
	}
	if _, ok := p.Space.User(); !ok || resource.Place(p.Space).Zero() || len(p.Space) > maxSpace {
		return resource.URI{}, false
	}
	return resource.Root(TypePiece, string(p.Space)), true
}

// maxSpace is how long the name of a space can be, so that it can be an id.
const maxSpace = 512

func (p Piece) String() string {
	if p.Duty != "" {
		return p.Duty
	}
	return string(p.Space)
}

// space is where the record is.
func (p Piece) space() resource.Space {
	if p.Duty != "" {
		return resource.System
	}
	return p.Space
}

// pieceOf returns the piece whose record is there.
func pieceOf(at resource.URI) (Piece, bool) {
	if at.Type() != TypePiece {
		return Piece{}, false
	}
	if d, ok := strings.CutPrefix(at.ID(), duty); ok {
		return Piece{Duty: d}, true
	}
	return Piece{Space: resource.Space(at.ID())}, true
}

func decode(at resource.URI, version, seq uint64, state string, body []byte) (entry, error) {
	e := entry{At: at, Version: version, Seq: seq, State: state}
	var ok bool
	if e.Piece, ok = pieceOf(at); !ok {
		return e, fault.New(fault.Internal, "lease_damaged", "%s is not the record of a piece of work", at)
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &e.record); err != nil {
			return e, fault.New(fault.Internal, "lease_damaged", "%s cannot be read: %w", at, err)
		}
	}
	return e, nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these types can be encoded
	}
	return b
}

// write replaces the record of a piece.
func (c *Cluster) write(ctx context.Context, p Piece, state string, r record, cond store.If) (entry, error) {
	at, ok := p.URI()
	if !ok {
		return entry{}, fault.New(fault.Invalid, "piece_invalid", "%q cannot be held by a node", p)
	}
	rec, err := c.opt.Store.Commit(ctx, store.ForNode(p.space()), store.Batch{Changes: []store.Change{{URI: at, State: state, Body: encode(r), If: cond}}})
	if err != nil {
		return entry{}, err
	}
	e := entry{Piece: p, At: at, Version: rec.Versions[0], Seq: rec.Seq, State: state, record: r}
	c.learn(e)
	c.tell(e)
	return e, nil
}

// read returns the newest version of the record of a piece.
func (c *Cluster) read(ctx context.Context, p Piece) (entry, error) {
	at, ok := p.URI()
	if !ok {
		return entry{}, fault.New(fault.Invalid, "piece_invalid", "%q cannot be held by a node", p)
	}
	r, err := c.opt.Store.Get(ctx, store.ForNode(p.space()), at)
	if err != nil {
		return entry{}, err
	}
	return decode(at, r.Version, r.Seq, r.State, r.Body)
}

// about reports whether a precondition on a record did not hold.
func about(err error, at resource.URI) bool {
	f := fault.Of(err)
	return f != nil && (f.Code == "conflict" || f.Code == "not_found") && f.Details["uri"] == at.String()
}

// table is what the node knows about the pieces of the cluster: those that wait or are held.
type table struct {
	mu       sync.Mutex
	entries  map[Piece]entry
	followed uint64                  // all entries of the log up to here are in the table
	waiters  map[Piece]chan struct{} // closed at the next change
}

func (t *table) init() {
	t.entries, t.waiters = map[Piece]entry{}, map[Piece]chan struct{}{}
}

func (t *table) get(p Piece) (entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[p]
	return e, ok
}

// look returns what is known about a piece, and a channel that is closed when that changes.
func (t *table) look(p Piece) (entry, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiters[p]
	if w == nil {
		w = make(chan struct{})
		t.waiters[p] = w
	}
	return t.entries[p], w
}

func (t *table) each(do func(entry)) {
	for _, e := range t.list() {
		do(e)
	}
}

func (t *table) list() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]entry, 0, len(t.entries))
	for _, e := range t.entries {
		out = append(out, e)
	}
	return out
}

// set changes the table, unless it has newer knowledge.
func (t *table) set(e entry, fromLog bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.entries[e.Piece]
	if ok && old.Seq >= e.Seq || !fromLog && e.Seq <= t.followed {
		return false
	}
	if e.State == "" {
		delete(t.entries, e.Piece)
	} else {
		t.entries[e.Piece] = e
	}
	t.wake(e.Piece)
	return true
}

// wake tells those who wait for a change of a piece. The table is locked.
func (t *table) wake(p Piece) {
	if w := t.waiters[p]; w != nil {
		close(w)
		delete(t.waiters, p)
	}
}

func (t *table) nudge(p Piece) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake(p)
}

// learn takes note of a version of a record.
func (c *Cluster) learn(e entry) { c.noted(e, c.table.set(e, false)) }

func (c *Cluster) noted(e entry, news bool) {
	if !news {
		return
	}
	if h := c.holding(e.Piece); h != nil && h.number.Load() > 0 && e.Seq > h.seq.Load() && !h.leaving.Load() {
		if e.Holder != "" && !h.lost.Load() {
			c.log.Warn("another node has taken over what this one works on", "piece", e.Piece.String(), "node", e.Holder)
		}
		h.fenced.Store(true)
		h.revoke()
	}
	if e.State == Waiting {
		c.publisher.add(e)
		c.mu.Lock()
		c.consume(e.Labels)
		c.mu.Unlock()
	}
}

// load reads all records, and returns the sequence number from which to follow the log.
func (c *Cluster) load(ctx context.Context) (uint64, error) {
	at, err := follow.Head(ctx, c.opt.Store)
	if err != nil {
		return 0, err
	}
	for _, state := range []string{Waiting, Held} {
		for it, err := range store.Items(ctx, c.opt.Store, store.ForNode(""), store.Query{Type: TypePiece, State: state, Limit: 1000}) {
			if err != nil {
				return 0, err
			}
			if e, err := decode(it.URI, it.Version, it.Seq, it.State, it.Body); err != nil {
				c.log.Error("the record of a piece of work is damaged", "error", err)
			} else {
				c.table.set(e, true)
			}
		}
	}
	return at, nil
}

// follow keeps the table up to date. What other nodes do is told by them at once (tell); the log tells it again, to
// those that missed it. So it is enough to read it now and then.
func (c *Cluster) follow(at uint64) {
	for fault.Pause(c.ctx, followEvery) {
		if _, err := c.opt.Store.Wait(c.ctx, at); err != nil {
			if fault.HasCode(err, "store_closed") {
				return
			}
			continue
		}
		var err error
		if at, err = c.readLog(at); err != nil && c.ctx.Err() == nil {
			c.log.Warn("the log of the store cannot be followed", "error", err)
		}
	}
}

const followEvery = 50 * time.Millisecond

// readLog reads the log to its end. It returns how far it has come.
func (c *Cluster) readLog(at uint64) (uint64, error) {
	for more := true; more; {
		page, err := c.opt.Store.Log(c.ctx, store.ForNode(""), store.LogQuery{After: store.Cursor(follow.Behind(at)), Type: TypePiece, Limit: 1000})
		if err != nil {
			return at, err
		}
		for i := range page.Entries {
			c.entry(&page.Entries[i])
		}
		if at, err = follow.Cursor(page.Next).Position(); err != nil {
			return at, err
		}
		c.table.mu.Lock()
		c.table.followed = at
		c.table.mu.Unlock()
		more = page.More
	}
	return at, nil
}

func (c *Cluster) entry(l *resource.Entry) {
	state, body := l.State, l.Body
	if l.Op != resource.OpPut {
		state, body = "", nil
	}
	e, err := decode(l.URI, l.Version, l.Seq, state, body)
	if err != nil {
		c.log.Error("the record of a piece of work is damaged", "error", err)
		return
	}
	c.noted(e, c.table.set(e, true))
}

// sorted returns a sorted copy without duplicates.
func sorted(labels []string) []string {
	out := slices.Clone(labels)
	slices.Sort(out)
	return slices.Compact(out)
}

// token writes a text so that it can be one token of a subject and a name of a consumer.
func token(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// set returns the token of a set of labels.
func set(labels []string) string {
	if len(labels) == 0 {
		return "_"
	}
	var parts []string
	for _, l := range sorted(labels) {
		parts = append(parts, token(l))
	}
	s := strings.Join(parts, ",")
	if len(s) > 200 { // names of consumers are names of files
		sum := sha256.Sum256([]byte(s))
		s = "hash-" + hex.EncodeToString(sum[:])
	}
	return s
}

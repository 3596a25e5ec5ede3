package vector

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store/follow"
)

// Bounds of what is embedded.
const (
	pieceLen    = 2000 // bytes of a piece, about 500 tokens
	maxPieces   = 48   // of a message; the rest of a longer one has no vector
	batchDocs   = 256  // messages in one transaction
	batchSize   = 96   // pieces in one request
	batchSpaces = 500  // spaces that begin in one transaction
	maxDims     = 4096

	maxRefused = 3 // messages that a model refuses one after the other before it counts as failing
)

// Why a message has no vector.
const (
	heldHidden  = iota // it is deleted, or of a conversation that is not searched
	heldRefused        // policy does not allow it
	heldFailed         // the model does not take it
)

// Follow keeps the index up to date while the log is quiet, until ctx ends or the store or
// the index is closed.
func (x *Index) Follow(ctx context.Context) {
	x.followed.Store(true)
	defer x.followed.Store(false)
	var loops sync.WaitGroup
	loops.Go(func() {
		follow.Project(ctx, x.opt.Store, follow.Projection{Name: "the vector index", Quiet: x.opt.Quiet, Backlog: x.opt.Backlog, Lag: x.opt.Lag, Log: x.log,
			CatchUp: func(ctx context.Context) error {
				err := x.CatchUp(ctx)
				if err == nil {
					x.Wake()
				}
				return err
			}})
	})
	loops.Go(func() { x.embedWhenDue(ctx) })
	loops.Wait()
}

// Wake has Follow embed what is due.
func (x *Index) Wake() {
	select {
	case x.woken <- struct{}{}:
	default: // it has been woken already
	}
}

// embedWhenDue embeds after every reading of the log, and tries again after errors and when
// a day's budget begins.
func (x *Index) embedWhenDue(ctx context.Context) {
	const first, longest = 10 * time.Second, 10 * time.Minute
	pause := first
	again := true // what was refused or failed before this start
	told := ""    // the code of the last error
	for {
		wait, err := x.embed(ctx, again)
		switch {
		case ctx.Err() != nil, fault.HasCode(err, "store_closed"), fault.HasCode(err, "search_closed"):
			return
		case err != nil:
			level := slog.LevelWarn
			if code := fault.Of(err).Code; code == told { // a server that is away for days fills no log
				level = slog.LevelDebug
			} else {
				told = code
			}
			x.log.Log(ctx, level, "embedding is interrupted", "error", err, "again_in", pause)
			wait, pause = pause, min(2*pause, longest)
		default:
			again, pause, told = false, first, ""
		}
		if wait > 0 {
			if !fault.Pause(ctx, wait) {
				return
			}
			continue
		}
		select {
		case <-x.woken:
		case <-ctx.Done():
			return
		}
	}
}

// Embed embeds everything that is noted. Its error code embed_budget says that the day's
// budget is spent.
func (x *Index) Embed(ctx context.Context) error {
	wait, err := x.embed(ctx, true)
	if err == nil && wait > 0 {
		err = fault.New(fault.Exhausted, "embed_budget", "today's budget for embeddings is spent").
			WithHint("the rest is embedded tomorrow; the setting of the budget is embed.day_cost")
	}
	return err
}

// embed embeds what is noted, in turns between the spaces that have something new. wait is how long until the next
// day's budget, if the present one is spent. again: try once more what was refused or failed.
func (x *Index) embed(ctx context.Context, again bool) (wait time.Duration, err error) {
	select {
	case x.embedding <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-x.embedding }()
	err = x.with(ctx, func(d *database) error {
		want, sure := x.configured()
		r := &embedding{Index: x, d: d, want: want, sure: sure, again: again, models: map[string]Model{}}
		wait, err = r.run(ctx)
		return err
	})
	return wait, err
}

// configured returns the model for new vectors. sure is false if that is Lexical only
// because the configured model cannot be found.
func (x *Index) configured() (m Model, sure bool) {
	if x.opt.Model == nil {
		return Lexical(), true
	}
	m, err := x.opt.Model("")
	switch {
	case err != nil:
		return Lexical(), false
	case m.Name == LexicalName:
		return Lexical(), true
	}
	return m, true
}

// model returns a model by name.
func (x *Index) model(name string) (Model, error) {
	if name == LexicalName {
		return Lexical(), nil
	}
	if x.opt.Model == nil {
		return Model{}, fault.New(fault.NotFound, "model_not_found", "the embedding model %s is not set up any more", name)
	}
	return x.opt.Model(name)
}

// embedding is one run of embed.
type embedding struct {
	*Index
	d      *database
	want   Model
	sure   bool // see configured
	again  bool
	models map[string]Model // of the parts that are in use; without an Embedder: not available
}

// place is a space with the model that its searches use.
type place struct {
	id     int64
	name   resource.Space
	active string // empty: none yet
}

func (r *embedding) run(ctx context.Context) (wait time.Duration, err error) {
	due := r.due.take(r.want.Name, r.again)
	defer func() {
		if err != nil || wait > 0 {
			r.due.putBack(due)
		}
	}()
	places, err := r.places(ctx, due)
	if err != nil {
		return 0, err
	}
	places = slices.DeleteFunc(places, func(p *place) bool {
		held := r.opt.Holds == nil || r.opt.Holds(p.name)
		if !held {
			r.due.add([]int64{p.id})
		}
		return !held
	})
	if r.again {
		if err := r.d.write(ctx, retryHeld); err != nil {
			return 0, err
		}
	}
	if err := r.begin(ctx, places); err != nil {
		return 0, err
	}
	for len(places) > 0 {
		var rest []*place
		for _, p := range places {
			more, err := r.serve(ctx, p)
			if fault.HasCode(err, "embed_budget") {
				return untilTomorrow(), nil
			}
			if err != nil {
				return 0, err
			}
			if more {
				rest = append(rest, p)
			}
		}
		places = rest
	}
	return 0, nil
}

// places lists spaces.
func (r *embedding) places(ctx context.Context, of spaces) (places []*place, err error) {
	const text = "SELECT s.id, s.name, COALESCE(m.name, '') FROM space s LEFT JOIN model m ON m.id = s.active"
	add := func(s *sqlite.Stmt) {
		places = append(places, &place{s.ColumnInt64(0), resource.Space(s.ColumnText(1)), s.ColumnText(2)})
	}
	err = r.d.use(ctx, func(c *sqlite.Conn) error {
		if of.all {
			return query(c, text+" ORDER BY s.id", nil, add)
		}
		for _, id := range slices.Sorted(maps.Keys(of.ids)) {
			if err := query(c, text+" WHERE s.id = ?", []any{id}, add); err != nil {
				return err
			}
		}
		return nil
	})
	return places, err
}

// begin chooses the wanted model for the spaces that have none. It does so for many at a time: SQLite reads the whole
// schema again after each transaction that creates tables.
func (r *embedding) begin(ctx context.Context, places []*place) error {
	var fresh []*place
	for _, p := range places {
		if p.active == "" {
			p.active = r.want.Name
			fresh = append(fresh, p)
		}
	}
	for some := range slices.Chunk(fresh, batchSpaces) {
		if err := r.activate(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

// retryHeld makes the next run try what was refused or failed before.
func retryHeld(c *sqlite.Conn) error {
	parts, err := numbers(c, "SELECT id FROM part")
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := exec(c, fmt.Sprintf("UPDATE held_%d SET why = ? WHERE why <> ?", p), heldHidden, heldHidden); err != nil {
			return err
		}
	}
	return nil
}

// serve embeds one batch of a space with the model that its searches use and, when that has
// everything, with the wanted one.
func (r *embedding) serve(ctx context.Context, p *place) (more bool, err error) {
	if p.active != r.want.Name && !r.sure {
		return false, nil
	}
	if p.active != r.want.Name {
		old, ok := r.models[p.active]
		if !ok {
			if old, err = r.model(p.active); err != nil {
				r.log.Info("the former embedding model cannot be asked any more", "model", p.active, "error", err)
			}
			r.models[p.active] = old
		}
		if old.Embedder != nil {
			switch more, err := r.fill(ctx, p, old); {
			case ctx.Err() != nil:
				return false, ctx.Err()
			case err != nil: // the new one is what counts
				r.log.Info("the former embedding model failed", "model", p.active, "error", err)
				r.models[p.active] = Model{}
			case more:
				return true, nil
			}
		}
	}
	more, err = r.fill(ctx, p, r.want)
	if err != nil || more || p.active == r.want.Name {
		return more, err
	}
	p.active = r.want.Name
	r.log.Info("searches use another embedding model", "model", p.active)
	return false, r.activate(ctx, p)
}

// activate makes searches in spaces use their active model, and erases the other parts.
func (r *embedding) activate(ctx context.Context, places ...*place) error {
	var dropped []int64
	err := r.d.write(ctx, func(c *sqlite.Conn) error {
		for _, p := range places {
			part, err := partOf(c, p.id, p.active)
			if err != nil {
				return err
			}
			if err := exec(c, "UPDATE space SET active = (SELECT model FROM part WHERE id = ?) WHERE id = ?", part, p.id); err != nil {
				return err
			}
			others, err := numbers(c, "SELECT id FROM part WHERE space = ? AND id <> ?", p.id, part)
			if err != nil {
				return err
			}
			for _, old := range others {
				if err := script(c, fmt.Sprintf("DROP TABLE code_%[1]d;\nDROP TABLE vec_%[1]d;\nDROP TABLE held_%[1]d;\nDELETE FROM part WHERE id = %[1]d;\n", old)); err != nil {
					return err
				}
			}
			dropped = append(dropped, others...)
		}
		return exec(c, "UPDATE state SET erase = erase + ?", len(dropped))
	})
	for _, old := range dropped {
		r.cache.drop(old)
	}
	return err
}

// partOf returns a space's part of a model, which is created if missing.
func partOf(c *sqlite.Conn, space int64, name string) (int64, error) {
	model, found, err := number(c, "SELECT id FROM model WHERE name = ?", name)
	if err == nil && !found {
		if err = exec(c, "INSERT INTO model (name) VALUES (?)", name); err == nil {
			model = c.LastInsertRowID()
		}
	}
	if err != nil {
		return 0, err
	}
	part, found, err := number(c, "SELECT id FROM part WHERE space = ? AND model = ?", space, model)
	if err != nil || found {
		return part, err
	}
	if err := exec(c, "INSERT INTO part (space, model) VALUES (?, ?)", space, model); err != nil {
		return 0, err
	}
	part = c.LastInsertRowID()
	return part, script(c, fmt.Sprintf(partSchema, part))
}

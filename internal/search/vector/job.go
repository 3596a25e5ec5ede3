package vector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
)

// job is a batch of one part.
type job struct {
	*embedding
	p     *place
	model Model
	part  int64
	upto  int64 // before the batch
	docs  []*work
	sent  []*piece // in the order of the texts of the requests
}

// work is a message to embed.
type work struct {
	doc, conv, at int64
	role          uint8
	key           []byte
	hidden        bool
	held          bool // it was held back before
	why           int  // it is held back, if there are no pieces: heldRefused or heldFailed
	pieces        []*piece
}

type piece struct {
	text   string
	hash   [sha256.Size]byte
	known  bool // an equal piece has a vector already
	vector quantised
}

// fill embeds one batch of a space's messages with a model. It returns false if there are
// none left.
func (r *embedding) fill(ctx context.Context, p *place, m Model) (more bool, err error) {
	j := &job{embedding: r, p: p, model: m}
	if err := r.d.write(ctx, j.choose); err != nil || len(j.docs) == 0 {
		return false, err
	}
	if err := j.read(ctx); err != nil {
		return false, err
	}
	tokens, err := j.ask(ctx)
	if err != nil {
		return false, err
	}
	if err := r.d.write(ctx, func(c *sqlite.Conn) error { return j.save(c, tokens) }); err != nil {
		return false, err
	}
	if n := len(j.sent); n > 0 && r.opt.PerMinute > 0 && !m.Lexical {
		if !fault.Pause(ctx, time.Duration(n)*time.Minute/time.Duration(r.opt.PerMinute)) {
			return false, ctx.Err()
		}
	}
	return true, nil
}

// choose lists the messages of the batch: those that were held back and may be embedded
// now, or the ones after the last.
func (j *job) choose(c *sqlite.Conn) (err error) {
	if j.part, err = partOf(c, j.p.id, j.model.Name); err != nil {
		return err
	}
	if j.upto, _, err = number(c, "SELECT upto FROM part WHERE id = ?", j.part); err != nil {
		return err
	}
	const columns = "SELECT d.id, d.conv, d.at, d.role, d.key, d.gone OR d.cut OR v.gone"
	add := func(held bool) func(*sqlite.Stmt) {
		return func(s *sqlite.Stmt) {
			j.docs = append(j.docs, &work{doc: s.ColumnInt64(0), conv: s.ColumnInt64(1), at: s.ColumnInt64(2), role: uint8(s.ColumnInt64(3)), key: blob(s, 4), hidden: s.ColumnBool(5), held: held})
		}
	}
	err = query(c, fmt.Sprintf(columns+" FROM held_%[1]d h CROSS JOIN doc_%[2]d d ON d.id = h.doc CROSS JOIN conv_%[2]d v ON v.id = d.conv "+
		"WHERE h.why = ? AND d.gone = 0 AND d.cut = 0 AND v.gone = 0 LIMIT ?", j.part, j.p.id), []any{heldHidden, batchDocs}, add(true))
	if err != nil || len(j.docs) > 0 {
		return err
	}
	return query(c, fmt.Sprintf(columns+" FROM doc_%[1]d d CROSS JOIN conv_%[1]d v ON v.id = d.conv WHERE d.id > ? ORDER BY d.id LIMIT ?", j.p.id),
		[]any{j.upto, batchDocs}, add(false))
}

// read reads the texts from the store and cuts them into pieces. It shortens the batch to
// what fits into one request.
func (j *job) read(ctx context.Context) error {
	allowed := map[message.Labels]error{}
	seen := map[[sha256.Size]byte]bool{}
	for i, w := range j.docs {
		if len(j.sent) >= batchSize {
			j.docs = j.docs[:i]
			break
		}
		if w.hidden {
			continue
		}
		u, err := resource.FromKey(w.key)
		if err != nil {
			return broken("%w", err)
		}
		res, err := j.opt.Store.Get(ctx, nodeScope(), u)
		if fault.Is(err, fault.NotFound) {
			continue // erased: CatchUp will remove it
		}
		if err != nil {
			return err
		}
		m, err := record.DecodeMessage(u, res.Body)
		if err != nil {
			continue // CatchUp has logged it
		}
		text := search.Read(m)
		if strings.TrimSpace(text.Text) == "" {
			continue
		}
		refusal, ok := allowed[text.Labels]
		if !ok {
			refusal = j.allow(ctx, j.model, j.p.name, text.Labels)
			allowed[text.Labels] = refusal
		}
		if refusal != nil {
			w.why = heldRefused
			continue
		}
		for _, t := range cut(text.Text) {
			p := &piece{text: t, hash: sha256.Sum256([]byte(t))}
			w.pieces = append(w.pieces, p)
			if p.known = seen[p.hash]; p.known {
				continue
			}
			if p.known, err = j.known(ctx, p.hash[:]); err != nil {
				return err
			}
			if seen[p.hash] = true; !p.known {
				j.sent = append(j.sent, p)
			}
		}
	}
	return nil
}

// known reports whether an equal piece has a vector.
func (j *job) known(ctx context.Context, hash []byte) (found bool, err error) {
	err = j.d.use(ctx, func(c *sqlite.Conn) error {
		_, found, err = number(c, fmt.Sprintf("SELECT 1 FROM code_%d WHERE hash = ? LIMIT 1", j.part), hash)
		return err
	})
	return found, err
}

// allow returns an error if content with these labels may not go to the model. What is
// secret may go nowhere, whatever policy says.
func (x *Index) allow(ctx context.Context, m Model, space resource.Space, l message.Labels) error {
	switch {
	case l.Has(message.Secret):
		return llm.NotAllowed(m.Name, "what is secret is not embedded")
	case m.Lexical || x.opt.Allow == nil:
		return nil
	}
	user, _ := space.User()
	return x.opt.Allow(ctx, m.Name, &llm.Request{User: user, Labels: l})
}

// ask has the texts embedded. If the model refuses them together, it is asked for each
// message alone, and messages that it does not take are held back.
func (j *job) ask(ctx context.Context) (tokens int64, err error) {
	if len(j.sent) == 0 {
		return 0, nil
	}
	size := 0
	for _, p := range j.sent {
		size += len(p.text)
	}
	if err := j.afford(ctx, int64(size)/3); err != nil {
		return 0, err
	}
	tokens, err = j.embedPieces(ctx, j.sent)
	if !unusable(err) {
		return tokens, err
	}
	refused, asked := 0, 0
	for _, w := range j.docs {
		var own []*piece
		for _, p := range w.pieces {
			if !p.known {
				own = append(own, p)
			}
		}
		if len(own) == 0 {
			continue
		}
		n, single := j.embedPieces(ctx, own)
		tokens += n
		asked++
		if unusable(single) {
			if refused++; refused == asked && refused > maxRefused {
				return tokens, single // it is not the texts
			}
			j.log.Warn("a message cannot be embedded", "doc", w.doc, "model", j.model.Name, "error", single)
			w.pieces, w.why = nil, heldFailed
			continue
		}
		if single != nil {
			return tokens, single
		}
	}
	return tokens, nil
}

// unusable reports whether an error is about the texts and not about the service.
func unusable(err error) bool {
	return fault.Is(err, fault.Invalid) || fault.Is(err, fault.TooLarge)
}

func (j *job) embedPieces(ctx context.Context, pieces []*piece) (tokens int64, err error) {
	if len(pieces) == 0 {
		return 0, nil
	}
	before, _ := search.Prefixes(j.model.Name)
	texts := make([]string, len(pieces))
	size := 0
	for i, p := range pieces {
		texts[i] = before + p.text
		size += len(texts[i])
	}
	v, err := j.model.Embedder.Embed(ctx, texts)
	if err != nil {
		return 0, err
	}
	if len(v.Values) != len(texts) {
		return 0, fault.New(fault.Unavailable, "provider_error", "%s returned %d vectors for %d texts", j.model.Name, len(v.Values), len(texts))
	}
	for i, p := range pieces {
		if n := len(v.Values[i]); n == 0 || n > maxDims {
			return 0, fault.New(fault.Unavailable, "provider_error", "%s returned a vector of %d dimensions", j.model.Name, n)
		}
		p.vector = quantise(v.Values[i])
	}
	return cmp.Or(v.Tokens, int64(size)/4), nil
}

// afford returns embed_budget if so many tokens would exceed the day's budget.
func (j *job) afford(ctx context.Context, tokens int64) error {
	if j.opt.DayCost <= 0 || j.model.Price <= 0 {
		return nil
	}
	var spent float64
	err := j.d.use(ctx, func(c *sqlite.Conn) error {
		return query(c, "SELECT cost FROM spend WHERE day = ?", []any{today()}, func(s *sqlite.Stmt) { spent = s.ColumnFloat(0) })
	})
	if err == nil && spent+float64(tokens)*j.model.Price/1e6 > j.opt.DayCost {
		err = fault.New(fault.Exhausted, "embed_budget", "today's budget for embeddings is spent")
	}
	return err
}

// save commits a batch: its vectors, what it cost, and how far the part has got.
func (j *job) save(c *sqlite.Conn, tokens int64) error {
	now, _, err := number(c, "SELECT upto FROM part WHERE id = ?", j.part)
	if err != nil || now != j.upto {
		return err // another process has embedded it meanwhile
	}
	if err := j.saveDims(c); err != nil {
		return err
	}
	last := j.upto
	for _, w := range j.docs {
		if err := j.saveDoc(c, w); err != nil {
			return err
		}
		last = max(last, w.doc)
	}
	if tokens > 0 {
		cost := float64(tokens) * j.model.Price / 1e6
		err := exec(c, "INSERT INTO spend VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost", today(), tokens, cost)
		if err != nil {
			return err
		}
	}
	return exec(c, "UPDATE part SET upto = ?, gen = gen + 1 WHERE id = ?", last, j.part)
}

// saveDims notes the length of the model's vectors, and refuses another one.
func (j *job) saveDims(c *sqlite.Conn) error {
	have, _, err := number(c, "SELECT dims FROM model WHERE name = ?", j.model.Name)
	if err != nil {
		return err
	}
	for _, p := range j.sent {
		switch n := int64(len(p.vector.num)); {
		case n == 0 || n == have:
		case have != 0:
			return fault.New(fault.Unavailable, "embed_dimensions", "%s now returns vectors of %d dimensions instead of %d", j.model.Name, n, have).
				WithHint("use another name for the changed model, or delete %s to compute all vectors again", j.opt.Path)
		default:
			if err := exec(c, "UPDATE model SET dims = ? WHERE name = ?", n, j.model.Name); err != nil {
				return err
			}
			have = n
		}
	}
	return nil
}

func (j *job) saveDoc(c *sqlite.Conn, w *work) error {
	_, there, err := number(c, fmt.Sprintf("SELECT 1 FROM doc_%d WHERE id = ?", j.p.id), w.doc)
	if err != nil || !there {
		return err // erased meanwhile
	}
	if w.held {
		if err := exec(c, fmt.Sprintf("DELETE FROM held_%d WHERE doc = ?", j.part), w.doc); err != nil || c.Changes() == 0 {
			return err
		}
	}
	if w.hidden || w.why != heldHidden {
		return j.hold(c, w.doc, w.why)
	}
	type stored struct {
		code, num []byte
		scale     float64
	}
	rows := make([]stored, len(w.pieces))
	for i, p := range w.pieces {
		rows[i] = stored{packed(p.vector.code), unsigned(p.vector.num), float64(p.vector.scale)}
		if !p.known {
			continue
		}
		found := false
		err := query(c, fmt.Sprintf("SELECT c.code, v.num, v.scale FROM code_%[1]d c JOIN vec_%[1]d v ON v.id = c.id WHERE c.hash = ? LIMIT 1", j.part), []any{p.hash[:]}, func(s *sqlite.Stmt) {
			found, rows[i] = true, stored{blob(s, 0), blob(s, 1), s.ColumnFloat(2)}
		})
		if err != nil {
			return err
		}
		if !found && i > 0 { // a text may repeat itself
			if at := slices.IndexFunc(w.pieces[:i], func(o *piece) bool { return o.hash == p.hash }); at >= 0 {
				found, rows[i] = true, rows[at]
			}
		}
		if !found { // the only equal text was erased, or held back, meanwhile
			return j.hold(c, w.doc, heldHidden)
		}
	}
	for i, p := range w.pieces {
		err := exec(c, fmt.Sprintf("INSERT INTO code_%d (doc, piece, conv, at, role, hash, code) VALUES (?, ?, ?, ?, ?, ?, ?)", j.part),
			w.doc, i, w.conv, w.at, int64(w.role), p.hash[:], rows[i].code)
		if err != nil {
			return err
		}
		if err := exec(c, fmt.Sprintf("INSERT INTO vec_%d (id, scale, num) VALUES (?, ?, ?)", j.part), c.LastInsertRowID(), rows[i].scale, rows[i].num); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) hold(c *sqlite.Conn, doc int64, why int) error {
	return exec(c, fmt.Sprintf("INSERT OR REPLACE INTO held_%d (doc, why) VALUES (?, ?)", j.part), doc, why)
}

func packed(code []uint64) []byte {
	out := make([]byte, 0, 8*len(code))
	for _, w := range code {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	return out
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

func untilTomorrow() time.Duration {
	now := time.Now().UTC()
	return now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
}

// cut divides a text into pieces: at the end of a line or a word, if there is one in the
// second half of the piece.
func cut(text string) (out []string) {
	for _, s := range places(text) {
		out = append(out, text[s.From:s.To])
	}
	return out
}

// places returns where the pieces of a text are.
func places(text string) (out []search.Span) {
	for from := 0; from < len(text) && len(out) < maxPieces; {
		rest := text[from:]
		n := len(rest)
		if n > pieceLen {
			n = pieceLen
			for !utf8.RuneStart(rest[n]) {
				n--
			}
			if at := strings.LastIndexByte(rest[:n], '\n'); at > n/2 {
				n = at + 1
			} else if at := strings.LastIndexByte(rest[:n], ' '); at > n/2 {
				n = at + 1
			}
		}
		if s := strings.TrimSpace(rest[:n]); s != "" {
			at := from + strings.Index(rest[:n], s)
			out = append(out, search.Span{From: at, To: at + len(s)})
		}
		from += n
	}
	return out
}

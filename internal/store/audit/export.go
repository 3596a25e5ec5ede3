package audit

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// maxOmitted bounds the hashes on one line.
const maxOmitted = 256

// Export writes the entries that q selects and that the reader may see, one JSON
// object a line, oldest first. Of the entries between them, and of those up to
// the seal after the last one, it writes only the hashes, so that the chain can
// be verified: see VerifyExport. If the log was tampered with, it returns an
// error (log_tampered).
func (l *Log) Export(ctx context.Context, who Reader, q Query, w io.Writer) error {
	head, err := l.sealer.Seal(ctx)
	if err != nil {
		return err
	}
	since, err := follow.Before(ctx, l.store, store.ForNode(resource.System), q.Since)
	if err != nil {
		return err
	}
	since = min(since, head.Seq)
	x := &exporter{l: l, sc: who.scope(), closed: who.Closed, q: q, out: json.NewEncoder(w)}
	x.out.SetEscapeHTML(false)
	x.at = store.Head{Seq: since}
	if since > 0 {
		for s, err := range l.sealer.Sealed(ctx, x.sc, since-1) {
			if err != nil {
				return err
			}
			x.at.Hash = s.Chain
			break
		}
	}
	begin := line{Kind: kindBegin, Format: Format, Made: time.Now().UTC(), By: who.User, Of: who.User, After: &x.at}
	if who.All {
		begin.Of = "all"
	}
	if err := x.out.Encode(begin); err != nil {
		return err
	}
	return x.run(ctx, since, head.Seq)
}

// exporter is the state of one export.
type exporter struct {
	l      *Log
	sc     store.Scope
	closed []resource.Space
	q      Query
	out    *json.Encoder
	at     store.Head // after the last entry examined
	gap    line       // omitted entries that are not written yet
	past   bool       // an entry from after q.Until was found
	count  int
}

// sliceBytes bounds the bytes of bodies in memory at once. A single larger body
// is still read.
const sliceBytes = 4 << 20

// run exports slice after slice, up to the end of the seal that covers the last
// entry.
func (x *exporter) run(ctx context.Context, since, last uint64) error {
	for done := false; !done; {
		list, err := x.readSlice(ctx, since)
		if err != nil {
			return err
		}
		done = len(list) == 0
		for i := range list {
			s := &list[i]
			if err := x.writeEntry(ctx, s); err != nil {
				return err
			}
			since, done = s.Seq, s.Ends && (x.past || s.Seq >= last)
		}
	}
	return x.write(line{Kind: kindEnd, Head: &x.at, Entries: x.count})
}

// readSlice reads the entries after since, at most to the end of a seal. The store is
// in use only during this read, since the recipient of the export may be slow.
func (x *exporter) readSlice(ctx context.Context, since uint64) ([]store.Sealed, error) {
	var list []store.Sealed
	size := 0
	for s, err := range x.l.sealer.Sealed(ctx, x.sc, since) {
		if err != nil {
			return nil, err
		}
		list, size = append(list, s), size+len(s.Body)
		if s.Ends || size >= sliceBytes {
			break
		}
	}
	return list, nil
}

// writeEntry writes an entry.
func (x *exporter) writeEntry(ctx context.Context, s *store.Sealed) (err error) {
	x.past = x.past || !x.q.Until.IsZero() && !s.Hidden && !s.At.Before(x.q.Until)
	x.at = store.Head{Seq: s.Seq, Hash: s.Chain}
	if s.Hidden || slices.Contains(x.closed, s.Space) || !x.q.selects(&s.Entry) {
		err = x.omit(s)
	} else {
		err = x.entry(ctx, s)
	}
	if err == nil && s.Ends {
		at := x.at
		err = x.write(line{Kind: kindSeal, Head: &at})
	}
	return err
}

// omit records the hash of an entry that is not exported.
func (x *exporter) omit(s *store.Sealed) error {
	if x.gap.From == 0 {
		x.gap = line{Kind: kindOmitted, From: s.Seq}
	}
	x.gap.Hashes = append(x.gap.Hashes, s.Hash[:]...)
	if len(x.gap.Hashes) < maxOmitted*len(s.Hash) {
		return nil
	}
	return x.flush()
}

func (x *exporter) flush() error {
	gap := x.gap
	x.gap = line{}
	if gap.From == 0 {
		return nil
	}
	return x.out.Encode(gap)
}

func (x *exporter) write(l line) error {
	if err := x.flush(); err != nil {
		return err
	}
	return x.out.Encode(l)
}

func (x *exporter) entry(ctx context.Context, s *store.Sealed) error {
	e := newEntry(s)
	if x.q.Bodies {
		e.setBody(s, x.l.mask)
	}
	if err := x.l.explain(ctx, x.sc, s, e, x.q.Bodies); err != nil {
		return err
	}
	x.count++
	return x.write(line{Kind: kindEntry, Entry: e})
}

package turn

import (
	"slices"
	"sync"

	"steward/internal/id"
	"steward/internal/llm"
)

// Feed is the live side of one conversation: the draft of the message that is
// being written, and the frames that its watchers have not taken yet. It only
// holds the position of what is durable; a watcher that lags reads that from the
// store.
type Feed struct {
	conversation id.ID

	mu sync.Mutex
	snapshot
	frames   []Frame
	base     int // number of frames[0]
	watchers map[*watcher]struct{}
}

// snapshot is what a watcher needs to catch up: what is durable and what is in
// flight. Frames continue from there.
type snapshot struct {
	known         bool   // seq is valid
	seq           uint64 // log position of the newest durable message
	inter         id.ID  // the interaction that is running
	draft         *draft
	notices       []Frame    // of the message that is being written
	storedNotices []Frame    // notices of the durable messages, for watchers that come after the turn
	open          []CallView // calls that have no result yet
	tasks         []Frame    // of the tasks that have not ended
	planned       []Frame    // of the tasks of the running turn's plan, in the order of their making
	failure       *Frame     // why the last turn failed
	parked        bool       // failure is a parked turn's; it stays until that is resumed or cancelled
}

// maxLag is how many frames are kept for slow watchers. A watcher that is further
// behind is served from the store and the draft.
const maxLag = 4096

type draft struct {
	message id.ID
	blocks  []draftBlock
}

type draftBlock struct {
	kind llm.Kind // TextDelta, ReasoningDelta or CallStart
	text []byte
}

// watcher is one reader of a feed.
type watcher struct {
	next int           // number of the next frame to take
	Wake chan struct{} // holds one token when there may be more
}

func (f *Feed) Join() *watcher {
	w := &watcher{Wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers == nil {
		f.watchers = map[*watcher]struct{}{}
	}
	f.watchers[w] = struct{}{}
	return w
}

func (f *Feed) Leave(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	if len(f.watchers) == 0 {
		f.base += len(f.frames)
		f.frames = nil
	}
}

// SetSeq sets the newest durable position, unless it is known already.
func (f *Feed) SetSeq(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		f.known, f.seq = true, seq
	}
}

// copyState returns a copy of the current state. w takes what follows as frames.
func (f *Feed) copyState(w *watcher) snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.next = f.base + len(f.frames)
	s := f.snapshot
	s.notices, s.storedNotices, s.open, s.tasks = slices.Clone(f.notices), slices.Clone(f.storedNotices), slices.Clone(f.open), slices.Clone(f.tasks)
	s.planned = slices.Clone(f.planned)
	if f.draft != nil {
		s.draft = &draft{message: f.draft.message}
		for _, b := range f.draft.blocks {
			s.draft.blocks = append(s.draft.blocks, draftBlock{b.kind, slices.Clone(b.text)})
		}
	}
	return s
}

// take appends the frames that w has not seen to dst. It returns false if some of
// them are gone and w must catch up from the store.
func (f *Feed) take(w *watcher, dst []Frame) ([]Frame, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.next < f.base {
		return dst, false
	}
	dst = append(dst, f.frames[w.next-f.base:]...)
	w.next = f.base + len(f.frames)
	f.trim()
	return dst, true
}

// Calls returns the open calls, for a watcher that needs nothing else. It marks
// all frames up to now as taken by w.
func (f *Feed) Calls(w *watcher) []CallView {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.next = f.base + len(f.frames)
	f.trim()
	return slices.Clone(f.open)
}

// trim drops the frames once every watcher has taken all of them.
func (f *Feed) trim() {
	least := f.base + len(f.frames)
	for w := range f.watchers {
		least = min(least, w.next)
	}
	if least == f.base+len(f.frames) {
		f.base, f.frames = least, f.frames[:0]
	}
}

// push hands a frame to the watchers. The caller holds f.mu.
func (f *Feed) push(fr Frame) {
	if len(f.watchers) == 0 {
		return
	}
	if fr.Conversation = f.conversation; fr.Interaction.Zero() && (fr.Memory == nil || fr.Stored != nil) {
		fr.Interaction = f.inter
	}
	if fr.Cursor.Seq == 0 {
		fr.Cursor.Seq = f.seq
	}
	if len(f.frames) >= maxLag {
		n := copy(f.frames, f.frames[maxLag/2:])
		f.frames = f.frames[:n]
		f.base += maxLag - n
	}
	f.frames = append(f.frames, fr)
	for w := range f.watchers {
		select {
		case w.Wake <- struct{}{}:
		default:
		}
	}
}

// interaction returns the interaction that is running, or ran last.
func (f *Feed) interaction() id.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inter
}

package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
)

const (
	// overlap is asked for again before the last message: messages of several conversations do not arrive
	// in the order of their times.
	overlap = 10 * time.Minute
	// threads are found by the messages that they begin with, of so long before.
	threadsOf = 24 * time.Hour

	maxConversations = 500
	maxPages         = 100 // of a conversation or thread, of 200 messages each
)

// position is the time of the newest message that was accepted, as Slack writes it ("1700000000.000100").
type position struct {
	mu    sync.Mutex
	file  string        // empty: there is none
	state channel.State // keeps it in place of the file, with which it begins; may be nil
	ts    string
}

type positionFile struct {
	Newest string `json:"newest"`
}

// load returns the position. The first one is now: what was written before Steward came is not for it.
func (p *position) load() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != nil { // another machine may have been connected meanwhile
		data, err := p.state.Load()
		if err != nil {
			return p.ts, err
		}
		var in positionFile
		if json.Unmarshal(data, &in) == nil && validTS(in.Newest) {
			p.ts = in.Newest
		}
	}
	if p.ts != "" {
		return p.ts, nil
	}
	if p.file != "" {
		data, err := os.ReadFile(p.file)
		var in positionFile
		if err == nil && json.Unmarshal(data, &in) == nil && validTS(in.Newest) {
			p.ts = in.Newest
			return p.ts, nil
		}
	}
	return p.ts, p.set(strconv.FormatInt(time.Now().Unix(), 10) + ".000000")
}

// move sets the position if it is newer.
func (p *position) move(ts string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !validTS(ts) || compareTS(ts, p.ts) <= 0 {
		return nil
	}
	return p.set(ts)
}

// set keeps a position. A crash leaves the old one or the new one.
func (p *position) set(ts string) error {
	p.ts = ts
	if p.file == "" && p.state == nil {
		return nil
	}
	data, err := json.Marshal(positionFile{ts})
	if err != nil {
		return err
	}
	if p.state != nil {
		return p.state.Save(data)
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(p.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(p.file+".new", p.file)
}

// validTS reports whether a text is a time of Slack's.
func validTS(ts string) bool {
	seconds, micros, ok := strings.Cut(ts, ".")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	return ok && len(seconds) >= 1 && len(seconds) <= 12 && len(micros) == 6 && digits(seconds) && digits(micros)
}

// compareTS compares two times. One that is none is the oldest.
func compareTS(a, b string) int {
	number := func(ts string) int64 {
		if !validTS(ts) {
			return -1
		}
		n, _ := strconv.ParseInt(strings.Replace(ts, ".", "", 1), 10, 64)
		return n
	}
	return cmp.Compare(number(a), number(b))
}

func timeOf(ts string) time.Time {
	seconds, micros, _ := strings.Cut(ts, ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	m, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, m*1000).UTC()
}

func before(ts string, d time.Duration) string {
	return strconv.FormatInt(timeOf(ts).Add(-d).Unix(), 10) + ".000000"
}

// conversation is a channel, a group or a direct message that the app is a member of.
type conversation struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	IM   bool   `json:"is_im"`
}

// catchUp hands over the messages that are newer than the position, oldest first.
func (a *adapter) catchUp(ctx context.Context, me *account, receive func(context.Context, []channel.Update) error) error {
	newest, err := a.position.load()
	if err != nil && newest == "" {
		return err
	} else if err != nil {
		a.log.Warn("slack: the position cannot be kept", "error", err)
	}
	list, err := a.conversations(ctx)
	if err != nil {
		return err
	}
	since := before(newest, overlap)
	var updates []channel.Update
	for _, c := range list {
		found, err := a.newer(ctx, c, since, before(newest, threadsOf))
		if err != nil {
			if err := a.forgive(err); err != nil {
				return err
			}
			continue
		}
		kind := "channel"
		if c.IM {
			kind = "im"
		}
		for _, raw := range found {
			var m message
			if json.Unmarshal(raw, &m) != nil || compareTS(m.TS, since) <= 0 {
				continue
			}
			m.Channel, m.ChannelType = c.ID, kind
			if u, ok := m.convert(me); ok {
				updates = append(updates, u)
			}
		}
	}
	slices.SortStableFunc(updates, func(x, y channel.Update) int { return compareTS(x.Message, y.Message) })
	for batch := range slices.Chunk(updates, 100) {
		if err := receive(ctx, batch); err != nil {
			return err
		}
		if err := a.position.move(batch[len(batch)-1].Message); err != nil {
			a.log.Warn("slack: the position cannot be kept", "error", err)
		}
	}
	return nil
}

// forgive logs what must not keep Steward from receiving what is new: an app without the right to read a
// conversation's past, or a conversation that is gone.
func (a *adapter) forgive(err error) error {
	if fault.HasCode(err, "channel_scope") || fault.HasCode(err, "channel_rejected") {
		a.log.Warn("slack: what was written while Steward was offline cannot be read", "error", err)
		return nil
	}
	return err
}

// patiently repeats a reading call after the pauses that Slack asks for.
func (a *adapter) patiently(ctx context.Context, method string, args url.Values, result any) error {
	for {
		err := a.call(ctx, method, args, result)
		if !fault.HasCode(err, "channel_limited") {
			return err
		}
		if !fault.Pause(ctx, fault.Of(err).After) {
			return context.Cause(ctx)
		}
	}
}

type page struct {
	Metadata struct {
		Next string `json:"next_cursor"`
	} `json:"response_metadata"`
}

func (a *adapter) conversations(ctx context.Context) (list []conversation, err error) {
	// An app need not have the rights for all kinds, and Slack refuses the whole question then.
	for _, kind := range []string{"im", "public_channel", "private_channel", "mpim"} {
		args := url.Values{"types": {kind}, "limit": {"200"}, "exclude_archived": {"true"}}
		for len(list) < maxConversations {
			var out struct {
				page
				Channels []conversation `json:"channels"`
			}
			err := a.patiently(ctx, "users.conversations", args, &out)
			if fault.HasCode(err, "channel_scope") { // then it receives nothing from that kind either
				a.log.Debug("slack: no right to conversations of a kind", "kind", kind)
				break
			}
			if err != nil {
				if a.forgive(err) != nil {
					return nil, err
				}
				break
			}
			list = append(list, out.Channels...)
			if out.Metadata.Next == "" {
				break
			}
			args.Set("cursor", out.Metadata.Next)
		}
	}
	return list, nil
}

// newer returns the messages of a conversation, and of threads in it, that are newer than since. Threads are
// looked for at the messages that are newer than begun.
func (a *adapter) newer(ctx context.Context, c conversation, since, begun string) ([]json.RawMessage, error) {
	found, err := a.messages(ctx, "conversations.history", url.Values{"channel": {c.ID}, "oldest": {begun}})
	if err != nil {
		return nil, err
	}
	for _, raw := range slices.Clone(found) {
		var m struct {
			TS          string `json:"ts"`
			LatestReply string `json:"latest_reply"`
		}
		if json.Unmarshal(raw, &m) != nil || compareTS(m.LatestReply, since) <= 0 {
			continue
		}
		replies, err := a.messages(ctx, "conversations.replies", url.Values{"channel": {c.ID}, "ts": {m.TS}, "oldest": {since}})
		if err != nil {
			if a.forgive(err) != nil {
				return nil, err
			}
			continue
		}
		for _, r := range replies {
			var reply struct {
				TS string `json:"ts"`
			}
			if json.Unmarshal(r, &reply) == nil && reply.TS != m.TS { // the first message is always among them
				found = append(found, r)
			}
		}
	}
	return found, nil
}

func (a *adapter) messages(ctx context.Context, method string, args url.Values) (list []json.RawMessage, err error) {
	args.Set("limit", "200")
	for n := 0; ; n++ {
		if n == maxPages {
			a.log.Warn("slack: so much was written while Steward was offline that the oldest of it is not read", "conversation", args.Get("channel"))
			break
		}
		var out struct {
			page
			Messages []json.RawMessage `json:"messages"`
		}
		if err := a.patiently(ctx, method, args, &out); err != nil {
			return nil, err
		}
		list = append(list, out.Messages...)
		if out.Metadata.Next == "" {
			break
		}
		args.Set("cursor", out.Metadata.Next)
	}
	return list, nil
}

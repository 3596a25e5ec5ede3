package discord

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"steward/internal/channel"
	"steward/internal/fault"
)

const (
	maxState    = 1 << 20
	maxChannels = 1000
	maxMissed   = 100_000 // messages of a channel that are read after a gap; what is newer is left out, and the log says so
	maxStuck    = 3       // connections that end before the same event; then its session is given up
)

// Operations of the gateway.
const (
	opDispatch = iota
	opHeartbeat
	opIdentify
	_
	_
	_
	opResume
	opReconnect
	_
	opInvalid
	opHello
	opHeartbeatAck
)

// intents are what the account wants to know of: messages in servers and private messages, without their
// privileged content.
const intents = 1<<9 | 1<<12

// state is what Options.Dir keeps.
type state struct {
	Account   string            `json:"account"`
	Session   string            `json:"session,omitempty"`
	ResumeURL string            `json:"resume_url,omitempty"`
	Seq       uint64            `json:"seq"`      // the last event that was handled
	Channels  map[string]string `json:"channels"` // the last message of each that was accepted
}

// frame is what the gateway sends.
type frame struct {
	Op   int             `json:"op"`
	Seq  uint64          `json:"s"`
	Type string          `json:"t"`
	Data json.RawMessage `json:"d"`
}

// session is one connection.
type session struct {
	*Discord
	state
	me      user
	conn    *websocket.Conn
	receive func(context.Context, []channel.Update) error
}

// Run implements channel.Channel.
func (d *Discord) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	me, err := d.me(ctx)
	if err != nil {
		return err
	}
	s := &session{Discord: d, me: me, receive: receive}
	if err := s.load(); err != nil {
		return err
	}
	if d.noProgress(s.Seq) {
		d.opt.Log.Warn("the gateway of Discord fails again and again at the same event, which is skipped", "event", s.Seq+1)
		s.Session = ""
	}
	err = s.connect(ctx, connected)
	if errors.Is(err, errForgotten) {
		err = s.connect(ctx, connected)
	}
	return err
}

// errForgotten says that the service does not know the session any more. A new one may begin at once.
var errForgotten = errors.New("the gateway does not know the session any more")

// connect connects once, and resumes the session if there is one.
func (s *session) connect(ctx context.Context, connected func()) error {
	if s.Session == "" {
		var gateway struct {
			URL    string `json:"url"`
			Starts *struct {
				Remaining int   `json:"remaining"`
				Reset     int64 `json:"reset_after"` // milliseconds
			} `json:"session_start_limit"`
		}
		if err := s.get(ctx, "/gateway/bot", &gateway); err != nil {
			return err
		}
		if l := gateway.Starts; l != nil && l.Remaining <= 0 && l.Reset > 0 { // the service would withdraw the token
			return channel.Limited(service, time.Duration(min(l.Reset, 86_400_000))*time.Millisecond)
		}
		s.ResumeURL = gateway.URL
	}
	address, err := url.Parse(s.ResumeURL)
	if err != nil || address.Host == "" {
		s.Session = ""
		return errors.Join(fault.New(fault.Unavailable, "channel_unavailable", "%s names no address of its gateway", service), s.save())
	}
	address.RawQuery = "v=10&encoding=json"
	dialed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.conn, _, err = websocket.Dial(dialed, address.String(), &websocket.DialOptions{HTTPClient: s.opt.Client}) //nolint:bodyclose // it has none
	if err != nil {
		return channel.Unreachable(service, err)
	}
	defer s.conn.CloseNow() //nolint:errcheck // a session that is closed in order could not be resumed
	s.conn.SetReadLimit(maxAnswer)
	return s.closed(s.talk(ctx, connected))
}

// noProgress reports that too many connections in a row have ended before the same event was handled.
func (d *Discord) noProgress(at uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != at || at == 0 {
		d.at, d.stuck = at, 0
	}
	d.stuck++
	if d.stuck <= maxStuck {
		return false
	}
	d.stuck = 0
	return true
}

// progress records that a connection works.
func (d *Discord) progress() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = 0
}

// closed returns the coded error of a connection that has ended, and forgets the session if the service
// has (Gateway Close Event Codes).
func (s *session) closed(err error) error {
	switch code := websocket.CloseStatus(err); code {
	case 4004:
		return channel.Unauthorized(service, "the gateway does not accept it")
	case 4010, 4011, 4012, 4013, 4014:
		return fault.New(fault.Invalid, "channel_setting", "%s does not let the account receive messages: %w", service, err).
			WithHint("look at the page Bot of your application at https://discord.com/developers/applications")
	case 4003, 4007, 4009:
		s.Session = ""
		return errors.Join(channel.Unreachable(service, err), s.save())
	}
	var own received
	if errors.As(err, &own) {
		return own.error
	}
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		return err
	}
	return channel.Unreachable(service, err)
}

// received is an error of receive, which Run returns as it is.
type received struct{ error }

// talk greets the gateway and handles its events until the connection ends.
func (s *session) talk(ctx context.Context, connected func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hello, err := s.read(ctx)
	if err != nil {
		return err
	}
	var greeting struct {
		Interval int `json:"heartbeat_interval"`
	}
	if err := json.Unmarshal(hello.Data, &greeting); err != nil || hello.Op != opHello || greeting.Interval < 100 {
		return errors.New("the gateway does not say hello")
	}
	interval := time.Duration(min(greeting.Interval, 600_000)) * time.Millisecond
	if s.Session != "" {
		err = s.write(ctx, opResume, object{"token": s.opt.Token, "session_id": s.Session, "seq": s.Seq})
	} else {
		s.Seq = 0
		err = s.write(ctx, opIdentify, object{"token": s.opt.Token, "intents": intents, "properties": object{"os": "linux", "browser": "steward", "device": "steward"}})
	}
	if err != nil {
		return err
	}
	// The frames are read beside their handling, so that an answer to a heartbeat is seen in time.
	frames, acks, failure := make(chan frame, 64), make(chan struct{}, 1), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		failure <- s.listen(ctx, frames, acks)
	}()
	defer func() { cancel(); <-done }()
	beat := time.NewTimer(interval / 2)
	defer beat.Stop()
	waiting := false // for the answer to a heartbeat
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failure:
			for len(frames) > 0 { // what came before the end
				if err := s.handle(ctx, <-frames, connected); err != nil {
					return err
				}
			}
			return err
		case <-acks:
			waiting = false
		case <-beat.C:
			if waiting {
				return errors.New("the gateway does not answer")
			}
			if err := s.heartbeat(ctx); err != nil {
				return err
			}
			waiting = true
			beat.Reset(interval)
		case f := <-frames:
			if err := s.handle(ctx, f, connected); err != nil {
				return err
			}
		}
	}
}

// listen reads frames until the connection ends.
func (s *session) listen(ctx context.Context, frames chan<- frame, acks chan<- struct{}) error {
	for {
		f, err := s.read(ctx)
		if err != nil {
			return err
		}
		if f.Op == opHeartbeatAck {
			select {
			case acks <- struct{}{}:
			default:
			}
			continue
		}
		select {
		case frames <- f:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read returns the next frame. What is no frame is skipped.
func (s *session) read(ctx context.Context) (frame, error) {
	for {
		_, b, err := s.conn.Read(ctx)
		if err != nil {
			return frame{}, err
		}
		f := frame{Op: -1}
		if err := json.Unmarshal(b, &f); err == nil && f.Op >= 0 {
			return f, nil
		}
		s.opt.Log.Debug("the gateway of Discord has sent something that is no event", "bytes", len(b))
	}
}

func (s *session) write(ctx context.Context, op int, data any) error {
	b, err := json.Marshal(object{"op": op, "d": data})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, b)
}

func (s *session) heartbeat(ctx context.Context) error {
	if s.Seq == 0 {
		return s.write(ctx, opHeartbeat, nil)
	}
	return s.write(ctx, opHeartbeat, s.Seq)
}

// handle does what a frame asks for.
func (s *session) handle(ctx context.Context, f frame, connected func()) error {
	switch f.Op {
	case opHeartbeat:
		return s.heartbeat(ctx)
	case opReconnect:
		return errors.New("the gateway asks to connect again")
	case opInvalid:
		if string(f.Data) != "true" {
			s.Session, s.Seq = "", 0
			return errors.Join(errForgotten, s.save())
		}
		return errors.New("the gateway asks to connect again")
	case opDispatch:
	default:
		return nil
	}
	switch f.Type {
	case "READY":
		var ready struct {
			Session string `json:"session_id"`
			URL     string `json:"resume_gateway_url"`
		}
		if err := json.Unmarshal(f.Data, &ready); err != nil {
			return err
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		s.Session = ready.Session
		if ready.URL != "" {
			s.ResumeURL = ready.URL
		}
		connected()
	case "RESUMED":
		connected()
	default:
		u, ok, err := s.update(ctx, f)
		if err != nil {
			return err
		}
		if ok {
			if err := s.hand(ctx, u); err != nil {
				return err
			}
			if u.Kind == channel.Press {
				s.answer(ctx, f)
			}
		}
	}
	s.Seq = max(s.Seq, f.Seq)
	s.progress()
	return s.save()
}

// hand hands an update over. Its channel is noted before, so that the message is found if it is not accepted
// and the session is lost.
func (s *session) hand(ctx context.Context, u channel.Update) error {
	if u.Kind != channel.Message {
		return s.deliver(ctx, u)
	}
	at := u.Address.Chat
	if u.Address.Thread != "" {
		at = u.Address.Thread
	}
	if s.Channels[at] == "" {
		s.Channels[at] = before(u.Message)
		for len(s.Channels) > maxChannels { // the one that was written in longest ago
			delete(s.Channels, slices.MinFunc(slices.Collect(maps.Keys(s.Channels)), func(a, b string) int { return compare(s.Channels[a], s.Channels[b]) }))
		}
		if err := s.save(); err != nil {
			return err
		}
	}
	if err := s.deliver(ctx, u); err != nil {
		return err
	}
	if compare(u.Message, s.Channels[at]) > 0 {
		s.Channels[at] = u.Message
	}
	return nil
}

func (s *session) deliver(ctx context.Context, u channel.Update) error {
	if err := s.receive(ctx, []channel.Update{u}); err != nil {
		s.progress() // the event is not to blame
		return received{err}
	}
	return nil
}

// catchUp asks each channel for what was written after the last message that was accepted.
func (s *session) catchUp(ctx context.Context) error {
	for _, at := range slices.Sorted(maps.Keys(s.Channels)) {
		for n := 0; n < maxMissed; {
			var page []json.RawMessage
			err := s.get(ctx, "/channels/"+url.PathEscape(at)+"/messages?limit=100&after="+url.QueryEscape(s.Channels[at]), &page)
			if fault.HasCode(err, "channel_gone") {
				delete(s.Channels, at)
				break
			}
			if fault.Is(err, fault.RateLimited) && fault.Pause(ctx, fault.Of(err).After) {
				continue
			}
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			slices.Reverse(page) // the newest comes first
			last := s.Channels[at]
			for _, raw := range page {
				var m message
				if json.Unmarshal(raw, &m) != nil || m.ID == "" {
					continue
				}
				u, ok, err := s.message(ctx, m, channel.Message)
				if err != nil {
					return err
				}
				if ok {
					if err := s.hand(ctx, u); err != nil {
						return err
					}
				}
				if compare(m.ID, s.Channels[at]) > 0 {
					s.Channels[at] = m.ID
				}
				if ok {
					if err := s.save(); err != nil {
						return err
					}
				}
			}
			if n += len(page); s.Channels[at] == last {
				break
			}
			if n >= maxMissed {
				s.opt.Log.Warn("more messages of Discord were missed than are read; the newer ones are left out", "channel", at, "read", n)
			}
		}
		if err := s.save(); err != nil {
			return err
		}
	}
	return nil
}

// compare compares two IDs, which are numbers of any length.
func compare(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// before returns an ID below another.
func before(id string) string {
	b := []byte(id)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] > '0' && b[i] <= '9' {
			b[i]--
			break
		}
		b[i] = '9'
	}
	if trimmed := strings.TrimLeft(string(b), "0"); trimmed != "" {
		return trimmed
	}
	return "0"
}

const stateFile = "discord.json"

// load reads what was kept. What another account has left is of no use.
func (s *session) load() error {
	b, err := s.opt.LoadState(stateFile, maxState)
	if err != nil {
		return err
	}
	if b != nil {
		if err := json.Unmarshal(b, &s.state); err != nil || s.Account != s.me.ID {
			s.opt.Log.Warn("the place at which Steward stopped reading is not known: it begins with what comes now", "file", filepath.Join(s.opt.Dir, stateFile))
			s.state = state{}
		}
	}
	s.Account = s.me.ID
	if s.Channels == nil {
		s.Channels = map[string]string{}
	}
	return nil
}

func (s *session) save() error {
	b, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return s.opt.SaveState(stateFile, b)
}

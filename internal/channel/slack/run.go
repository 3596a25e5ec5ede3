package slack

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coder/websocket"

	"steward/internal/channel"
	"steward/internal/fault"
)

const (
	dialLimit   = 30 * time.Second
	helloLimit  = 30 * time.Second
	pingEvery   = 30 * time.Second
	pingLimit   = 20 * time.Second
	maxEnvelope = 8 << 20
	waiting     = 256 // envelopes that are read but not yet handled
)

// envelope is a message of Socket Mode.
type envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload"`
}

func (a *adapter) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	me, err := a.whoAmI(ctx)
	if err != nil {
		return err
	}
	address, err := a.open(ctx)
	if err != nil {
		return err
	}
	dialing, done := context.WithTimeout(ctx, dialLimit)
	conn, _, err := websocket.Dial(dialing, address, &websocket.DialOptions{HTTPClient: a.client})
	done()
	if err != nil {
		return channel.Unreachable(service, errors.New("the WebSocket does not open")) // its address is a ticket
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxEnvelope)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One goroutine reads, which also answers Slack's pings, and one pings: without it nobody would notice
	// that the network is gone. Both end with the connection.
	incoming := make(chan envelope, waiting)
	ended := make(chan struct{}, 2)
	go func() {
		defer func() { ended <- struct{}{} }()
		cancel(a.read(ctx, conn, incoming))
	}()
	go func() {
		defer func() { ended <- struct{}{} }()
		ping(ctx, conn, cancel)
	}()
	defer func() {
		cancel(nil)
		conn.CloseNow()
		<-ended
		<-ended
	}()

	hello := time.NewTimer(helloLimit)
	defer hello.Stop()
	welcomed := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-hello.C:
			if !welcomed {
				return fault.New(fault.Unavailable, "channel_answer", "%s does not greet", service)
			}
		case e := <-incoming:
			switch e.Type {
			case "hello":
				if welcomed {
					continue
				}
				welcomed = true
				connected()
				if err := a.catchUp(ctx, me, receive); err != nil {
					return lost(ctx, err)
				}
				continue
			case "disconnect":
				if e.Reason == "link_disabled" {
					return fault.New(fault.Denied, "channel_disabled", "Socket Mode of the Slack app is turned off").
						WithHint("turn it on under Socket Mode of your app")
				}
				return fault.New(fault.Unavailable, "channel_lost", "%s asks for a new connection", service)
			}
			if err := a.handle(ctx, me, conn, e, receive); err != nil {
				return lost(ctx, err)
			}
		}
	}
}

// lost returns why the connection was lost, if that is what an error comes from.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || fault.HasCode(err, "channel_uncertain") || fault.HasCode(err, "channel_unreachable")) {
		return context.Cause(ctx)
	}
	return err
}

// read reads envelopes until the connection is lost, and returns why.
func (a *adapter) read(ctx context.Context, conn *websocket.Conn, out chan<- envelope) error {
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fault.New(fault.Unavailable, "channel_lost", "the connection to %s is lost: %w", service, err)
		}
		var e envelope
		if json.Unmarshal(data, &e) != nil {
			a.log.Warn("slack: an envelope that cannot be read is ignored")
			continue
		}
		select {
		case out <- e:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func ping(ctx context.Context, conn *websocket.Conn, cancel context.CancelCauseFunc) {
	for fault.Pause(ctx, pingEvery) {
		limited, done := context.WithTimeout(ctx, pingLimit)
		err := conn.Ping(limited)
		done()
		if err != nil {
			cancel(fault.New(fault.Unavailable, "channel_lost", "the connection to %s is lost: no answer to a ping", service))
			return
		}
	}
}

// handle hands over what is in an envelope, and acknowledges it.
func (a *adapter) handle(ctx context.Context, me *account, conn *websocket.Conn, e envelope, receive func(context.Context, []channel.Update) error) error {
	if e.ID == "" {
		return nil
	}
	if u, ok := a.convert(me, e); ok {
		if err := receive(ctx, []channel.Update{u}); err != nil {
			return err
		}
		if u.Kind == channel.Message {
			if err := a.position.move(u.Message); err != nil {
				a.log.Warn("slack: the position cannot be kept", "error", err)
			}
		}
	}
	ack, err := json.Marshal(map[string]string{"envelope_id": e.ID})
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, ack); err != nil {
		return fault.New(fault.Unavailable, "channel_lost", "the connection to %s is lost: %w", service, err)
	}
	return nil
}

package home

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// conn is one authenticated connection. It numbers its commands; a goroutine reads the answers and the events
// in the order in which Home Assistant sent them, and applies events to the states as it reads them.
type conn struct {
	h       *Home
	ws      *websocket.Conn
	version string // of Home Assistant
	cancel  context.CancelCauseFunc
	done    chan struct{} // the reader has ended
	reload  chan struct{} // a registry has changed

	sending sync.Mutex
	last    int // number of a command; guarded by sending

	mu      sync.Mutex
	waiting map[int]waiter
	model
}

// waiter waits for the answer to a command. The reader calls apply, which may be nil, before it reads what
// comes after the answer.
type waiter struct {
	to    chan answer
	apply func(answer)
}

// answer is what Home Assistant sends. Fields that a type of message does not have are empty.
type answer struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Success bool            `json:"success"`
	Result  json.RawMessage `json:"result"`
	Error   struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Event struct {
		Type string          `json:"event_type"`
		Data json.RawMessage `json:"data"`
	} `json:"event"`
	Message string `json:"message"`    // of auth_invalid
	Version string `json:"ha_version"` // of auth_ok
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

// connect opens a connection, authenticates, subscribes, and reads the home.
func (h *Home) connect(ctx context.Context) (c *conn, err error) {
	token, err := h.opt.Token(ctx)
	if err != nil {
		return nil, err
	}
	dial, cancel := context.WithTimeout(ctx, h.opt.Timing.Answer)
	defer cancel()
	ws, _, err := websocket.Dial(dial, strings.TrimSuffix(h.opt.URL, "/")+"/api/websocket", //nolint:bodyclose // the library owns the body
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: h.opt.Transport}})
	if err != nil {
		if e := (*fault.Error)(nil); errors.As(err, &e) {
			return nil, e
		}
		return nil, h.unavailable("%w", err)
	}
	ws.SetReadLimit(maxMessage)
	c = &conn{h: h, ws: ws, done: make(chan struct{}), reload: make(chan struct{}, 1), waiting: map[int]waiter{}, model: newModel(h.opt.Ask...)}
	if err := c.authenticate(dial, token); err != nil {
		ws.CloseNow() //nolint:errcheck // there is nothing to lose
		return nil, err
	}
	reading, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.cancel = stop
	go c.read(reading)
	for _, event := range []string{"state_changed", "entity_registry_updated", "device_registry_updated", "area_registry_updated"} {
		if _, err := c.ask(ctx, command{"type": "subscribe_events", "event_type": event}); err != nil {
			c.close()
			return nil, err
		}
	}
	if err := c.load(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// authenticate answers Home Assistant's question for the token.
func (c *conn) authenticate(ctx context.Context, token string) error {
	var a answer
	for {
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			return c.h.unavailable("it closed the connection before authentication: %w", err)
		}
		a = answer{}
		if json.Unmarshal(data, &a) != nil {
			return c.h.unavailable("it does not speak Home Assistant's protocol")
		}
		switch a.Type {
		case "auth_required":
			body, err := json.Marshal(command{"type": "auth", "access_token": token})
			if err == nil {
				err = c.ws.Write(ctx, websocket.MessageText, body)
			}
			if err != nil {
				return c.h.unavailable("%w", err)
			}
		case "auth_ok":
			c.version = local.Line(a.Version, 40)
			return nil
		case "auth_invalid":
			return fault.New(fault.Unauthentic, "home_token_refused", "Home Assistant refuses the token: %s", local.Line(a.Message, 100)).
				WithHint("create a long-lived access token on the security page of your profile in Home Assistant, and store it: steward secrets set HOME_ASSISTANT_TOKEN")
		default:
			return c.h.unavailable("it does not speak Home Assistant's protocol")
		}
	}
}

// close ends the connection and waits for its reader.
func (c *conn) close() {
	c.cancel(errors.New("closed"))
	c.ws.CloseNow() //nolint:errcheck // there is nothing to lose
	<-c.done
}

// ended reports whether nothing is read any more.
func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// read passes on answers and applies events, until the connection ends.
func (c *conn) read(ctx context.Context) {
	defer close(c.done)
	for {
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			c.cancel(err)
			return
		}
		var a answer
		if err := json.Unmarshal(data, &a); err != nil {
			continue // a message that is not for us, such as one of a later version
		}
		if a.Type == "event" {
			c.event(a)
			continue
		}
		c.mu.Lock()
		w := c.waiting[a.ID]
		delete(c.waiting, a.ID)
		c.mu.Unlock()
		if w.apply != nil {
			w.apply(a)
		}
		if w.to != nil {
			w.to <- a
		}
	}
}

func (c *conn) event(a answer) {
	if a.Event.Type != "state_changed" {
		select {
		case c.reload <- struct{}{}:
		default:
		}
		return
	}
	var d struct {
		ID  string `json:"entity_id"`
		New *state `json:"new_state"`
	}
	if json.Unmarshal(a.Event.Data, &d) == nil {
		c.mu.Lock()
		c.apply(d.ID, d.New)
		now, ok := c.states[d.ID]
		c.mu.Unlock()
		if ok {
			c.h.tell(now)
		}
	}
}

// serve keeps the connection alive and its picture of the home complete. It returns when the connection ends.
func (c *conn) serve(ctx context.Context) error {
	t := c.h.opt.Timing
	ping, all := time.NewTicker(t.Ping), time.NewTicker(t.Reload)
	defer ping.Stop()
	defer all.Stop()
	var settled <-chan time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return errors.New("Home Assistant closed it")
		case <-c.reload:
			if settled == nil {
				settled = time.After(t.Settle)
			}
		case <-settled:
			settled = nil
			err = c.load(ctx)
		case <-all.C:
			err = c.load(ctx)
		case <-ping.C:
			_, err = c.ask(ctx, command{"type": "ping"})
		}
		if err != nil {
			return err
		}
	}
}

// command is a message to Home Assistant. ask gives it its number.
type command map[string]any

// ask sends a command and waits for its answer. An error that holds for tool.CertainlyNotDone says that Home
// Assistant refused the command, or never got it.
func (c *conn) ask(ctx context.Context, cmd command) (json.RawMessage, error) {
	return c.askAnd(ctx, cmd, nil)
}

// askAnd is ask, except that apply is called with the answer before anything that comes after it is read.
func (c *conn) askAnd(ctx context.Context, cmd command, apply func(answer)) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.h.opt.Timing.Answer)
	defer cancel()
	to := make(chan answer, 1)
	n, err := c.send(ctx, cmd, waiter{to, apply})
	defer func() {
		c.mu.Lock()
		delete(c.waiting, n)
		c.mu.Unlock()
	}()
	if err != nil {
		return nil, err
	}
	select {
	case a := <-to:
		return c.result(a)
	case <-c.done:
		select { // the answer may have been the last message
		case a := <-to:
			return c.result(a)
		default:
		}
		return nil, c.h.unavailable("the connection was lost before it answered")
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fault.New(fault.Timeout, "home_timeout", "Home Assistant did not answer in time").WithHint("ask for the state of the device before you try again")
		}
		return nil, fault.Of(ctx.Err())
	}
}

// send numbers a command and sends it. One is sent at a time, because Home Assistant refuses numbers that do
// not increase.
func (c *conn) send(ctx context.Context, cmd command, w waiter) (n int, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if ctx.Err() != nil {
		return 0, tool.NotDone(fault.Of(ctx.Err()))
	}
	c.last++
	cmd["id"] = c.last
	body, err := json.Marshal(cmd)
	if err != nil {
		return 0, tool.NotDone(fault.New(fault.Invalid, "home_refused", "the command cannot be written: %w", err))
	}
	c.mu.Lock()
	c.waiting[c.last] = w
	c.mu.Unlock()
	// A caller that gives up must not close the connection for others, which a canceled write would do.
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.h.opt.Timing.Answer)
	defer cancel()
	if err := c.ws.Write(writing, websocket.MessageText, body); err != nil {
		return c.last, c.h.unavailable("the connection was lost: %w", err)
	}
	return c.last, nil
}

func (c *conn) result(a answer) (json.RawMessage, error) {
	if a.Type == "pong" || a.Success {
		return a.Result, nil
	}
	text := local.Line(a.Error.Message, 300)
	switch a.Error.Code {
	case "unauthorized":
		return nil, fault.New(fault.Denied, "home_forbidden", "the user of the token may not do this in Home Assistant: %s", text).
			WithHint("use a token of a user who may")
	case "not_found", "unknown_command", "invalid_format", "service_validation_error":
		return nil, fault.New(fault.Invalid, "home_refused", "Home Assistant refuses it: %s", text).WithHint("check what the device can do with home.state")
	case "timeout":
		return nil, fault.New(fault.Timeout, "home_timeout", "Home Assistant reports a timeout: %s", text).WithHint("ask for the state of the device before you try again")
	}
	// home_assistant_error and unknown_error come from a device's integration, which may have done a part.
	return nil, fault.New(fault.Unavailable, "home_failed", "Home Assistant reports an error: %s", text).WithHint("ask for the state of the device before you try again")
}

// call calls a service for entities. want asks for the service's response.
func (c *conn) call(ctx context.Context, domain, service string, entities []string, data map[string]any, want bool) (json.RawMessage, error) {
	cmd := command{"type": "call_service", "domain": domain, "service": service, "target": map[string]any{"entity_id": entities}}
	if len(data) > 0 {
		cmd["service_data"] = data
	}
	if want {
		cmd["return_response"] = true
	}
	body, err := c.ask(ctx, cmd)
	if err != nil {
		return nil, err
	}
	var r struct {
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, nil //nolint:nilerr // the service was called; a response that cannot be read is none
	}
	return r.Response, nil
}

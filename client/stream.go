package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// maxFrame is the size limit of a received frame, in bytes.
const maxFrame = 256 << 20

// Stream is a connection to the WebSocket at /ws. docs/reference/websocket.md describes its frames.
type Stream struct {
	client *Client
	conn   *websocket.Conn
}

// Dial opens a stream.
func (c *Client) Dial(ctx context.Context) (*Stream, error) {
	header := http.Header{}
	if err := c.Authorize(header); err != nil {
		return nil, err
	}
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.o.URL, "http")+"/ws", &websocket.DialOptions{HTTPClient: c.o.HTTP, HTTPHeader: header})
	if err != nil {
		if res != nil && res.StatusCode >= http.StatusBadRequest {
			return nil, c.refused(res)
		}
		return nil, c.unreachable(err)
	}
	conn.SetReadLimit(maxFrame)
	return &Stream{c, conn}, nil
}

// Send writes a frame.
func (s *Stream) Send(ctx context.Context, frame any) error {
	b, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	if err := s.conn.Write(ctx, websocket.MessageText, b); err != nil {
		return s.client.unreachable(err)
	}
	return nil
}

// Receive reads the next frame. A frame that refuses a request is returned as an error. The error
// of a turn is a frame like any other.
func (s *Stream) Receive(ctx context.Context, frame any) error {
	_, b, err := s.conn.Read(ctx)
	if err != nil {
		return s.client.unreachable(err)
	}
	var head struct {
		Type, Cursor string
		Error
	}
	if err := errors.Join(json.Unmarshal(b, &head), json.Unmarshal(b, frame)); err != nil {
		return s.client.unreachable(err)
	}
	if head.Type == "error" && head.Cursor == "" {
		return s.client.o.Fault(&head.Error)
	}
	return nil
}

// Close closes the connection at once, without a closing handshake.
func (s *Stream) Close() { s.conn.CloseNow() } //nolint:errcheck // how it ends is of no interest

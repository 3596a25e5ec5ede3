package terminal_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"steward/client"
	"steward/internal/terminal"
	"steward/test/served"
)

// interrupted follows a message that is interrupted before the server accepts it.
// The server takes the given time to accept.
func interrupted(t *testing.T, takes time.Duration) (acc client.Accepted, took time.Duration, err error) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c := client.New(client.Options{URL: served.URL, HTTP: served.Handler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		var in client.Message
		if err := wsjson.Read(t.Context(), conn, &in); err != nil {
			t.Error(err)
			return
		}
		interrupt()
		time.Sleep(takes) // on the bubble's clock
		// It fails if the client has given up.
		_ = wsjson.Write(t.Context(), conn, map[string]string{"type": "accepted", "conversation_id": "c", "interaction_id": "i"})
	}))})
	began := time.Now()
	acc, err = terminal.Follow(ctx, c, client.Message{Content: terminal.Words("hello")}, func(client.Frame) error { return nil })
	took = time.Since(began)
	time.Sleep(takes) // until the server is done
	return acc, took, err
}

// An interrupted Follow still returns the turn to stop.
func TestAnInterruptBeforeTheMessageIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc, _, err := interrupted(t, time.Second)
		if acc.Conversation != "c" || acc.Interaction != "i" || !errors.Is(err, context.Canceled) {
			t.Errorf("accepted %+v, %v", acc, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		acc, took, err := interrupted(t, time.Minute)
		if acc.Conversation != "" || err == nil || took > 10*time.Second {
			t.Errorf("accepted %+v, %v after %s", acc, err, took)
		}
	})
}

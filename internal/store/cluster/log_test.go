package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the server reports again for each attempt to connect is written once a minute, and no more is remembered of it.
func TestTheServerRepeatsItselfQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &serverLog{log: slog.New(slog.NewTextHandler(&out, nil)), last: map[string]time.Time{}}
		for attempt := range 240 { // as nats-server does in client.Errorf: the connection is in the format
			l.Errorf(fmt.Sprintf("127.0.0.1:%d - rid:%d - TLS route handshake error: %%v", 40000+attempt, attempt), "the other side does not know the secret")
			l.Warnf("Waiting for routing to be established...")
			time.Sleep(time.Second)
		}
		if n := strings.Count(out.String(), "handshake"); n != 4 {
			t.Errorf("written %d times in four minutes:\n%s", n, &out)
		}
		if len(l.last) != 2 {
			t.Errorf("%d kinds are remembered", len(l.last))
		}
		for i := range 3 * maxKinds {
			l.Errorf(strings.Repeat("x", i))
		}
		if len(l.last) > maxKinds {
			t.Errorf("%d kinds are remembered", len(l.last))
		}
	})
}

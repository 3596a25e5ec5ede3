package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/messaging"
	"steward/internal/settings"
	"steward/internal/tools/mail"
	"steward/test/storetest"
)

// onePeer is a cluster whose duties one node has: the one that serves at an address.
type onePeer struct {
	address string
	err     error
}

// Want implements peers.
func (onePeer) Want(context.Context, string) error { return nil }

// DialDuty implements peers.
func (p onePeer) DialDuty(ctx context.Context, duty string) (net.Conn, error) {
	if p.err != nil {
		return nil, p.err
	}
	return new(net.Dialer).DialContext(ctx, "tcp", p.address)
}

// The connections of a node to the home go through the node that has it, in both directions and as they are.
func TestTheHomeIsReachedThroughTheNodeThatHasIt(t *testing.T) {
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n") //nolint:errcheck // the reader notices
			io.Copy(c, rw)                                                                                        //nolint:errcheck // as above
			return
		}
		io.Copy(w, r.Body) //nolint:errcheck // as above
	}))
	defer home.Close()
	set := &settings.Loaded{}
	set.Home.URL = "http://192.168.1.9:8123"
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "192.168.1.9:8123" {
			t.Errorf("it connects to %s", address)
		}
		return new(net.Dialer).DialContext(ctx, network, home.Listener.Addr().String())
	}
	there := &duties{local: &Local{Log: slog.New(slog.DiscardHandler), outside: Outside{Dial: dial}}, set: set}
	gate := httptest.NewServer(there.homeGate())
	defer gate.Close()
	here := &Local{peers: onePeer{address: gate.Listener.Addr().String()}}
	transport := here.throughDuty().(*http.Transport) //nolint:forcetypeassert // it is one
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	say := func(text string) (string, error) {
		res, err := client.Post("http://home.example", "text/plain", strings.NewReader(text))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	if _, err := say("hello"); !fault.HasCode(err, "home_moved") {
		t.Errorf("a node without the home answers: %v", err)
	}
	if err := there.take(t.Context(), dutyHome); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("hello ", 100_000)
	if got, err := say(long); got != long || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://home.example", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	both := res.Body.(io.ReadWriteCloser) //nolint:forcetypeassert // of an upgraded connection it is one
	got := make([]byte, 4)
	if _, err := both.Write([]byte("ping")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(both, got); err != nil || string(got) != "ping" {
		t.Errorf("%q, %v", got, err)
	}
	there.leave(dutyHome)
	if n, err := both.Read(got); err == nil {
		t.Errorf("the connection goes on after the node has lost the home: %q", got[:n])
	}
	both.Close() //nolint:errcheck // it is broken already
	if err := there.take(t.Context(), dutyHome); err != nil {
		t.Fatal(err)
	}

	transport.CloseIdleConnections()
	home.Close()
	if _, err := say("hello"); !fault.HasCode(err, "home_unavailable") || !strings.Contains(err.Error(), "cannot reach it") {
		t.Errorf("without a home: %v", err)
	}
	here.peers = onePeer{err: fault.New(fault.Unavailable, "no_worker", "no worker has the label home")}
	if _, err := say("hello"); !fault.HasCode(err, "home_unavailable") || !strings.Contains(err.Error(), "label home") {
		t.Errorf("without a node: %v", err)
	}
}

// A mark in the store goes on from the file of the time before there was a cluster.
func TestTheMarkOfMailMovesWithItsUser(t *testing.T) {
	st := storetest.NewModel()
	file := mail.FileMark(filepath.Join(t.TempDir(), "mark"))
	mark := func() mailMark { return mailMark{store: st, user: "ann", account: "home", file: file} }
	if got, err := mark().Load(t.Context()); got != nil || err != nil {
		t.Error(got, err)
	}
	if err := file.Save(t.Context(), []byte("7 1")); err != nil {
		t.Fatal(err)
	}
	if got, err := mark().Load(t.Context()); string(got) != "7 1" || err != nil {
		t.Error(string(got), err)
	}
	for range 2 {
		if err := mark().Save(t.Context(), []byte("7 2")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := mark().Load(t.Context()); string(got) != "7 2" || err != nil {
		t.Error(string(got), err)
	}
	if head, err := st.Wait(t.Context(), 0); head != 1 || err != nil {
		t.Errorf("an unchanged mark was written: %d entries, %v", head, err)
	}
	other := mailMark{store: st, user: "bob", account: "home", file: mail.FileMark(filepath.Join(t.TempDir(), "mark"))}
	if got, err := other.Load(t.Context()); got != nil || err != nil {
		t.Error(got, err)
	}
	if err := other.Save(t.Context(), []byte("7 3")); err != nil {
		t.Error(err)
	}
}

// Each node says how the accounts at messengers are at the node that connects them.
func TestTheAccountsAreShownAsTheNodeSeesThemThatConnectsThem(t *testing.T) {
	log, st := slog.New(slog.DiscardHandler), storetest.NewModel()
	node := func() *Local {
		l := &Local{Log: log, Messages: messaging.New(messaging.Options{Store: st, Log: log, Accounts: []messaging.Account{{Name: "work", Kind: "webhook", Channel: broken{fault.New(fault.Invalid, "x", "the token is wrong")}}}})}
		t.Cleanup(l.Messages.Close)
		return l
	}
	there, here := node(), node()
	gate := httptest.NewServer(there.accountsHere())
	defer gate.Close()
	shown := func() client.Channel {
		t.Helper()
		list, err := accounts{here.Messages, here}.Channels(t.Context())
		if err != nil || len(list) != 1 || list[0].Account != "work" {
			t.Fatal(list, err)
		}
		return list[0]
	}
	if got := shown(); got.Running || got.Error != "" {
		t.Errorf("without a cluster: %+v", got)
	}
	here.peers = onePeer{address: gate.Listener.Addr().String()}
	if got := shown(); got.Running || !strings.Contains(got.Error, "no node of the cluster connects it") {
		t.Errorf("the other node has lost the duty: %+v", got)
	}
	there.Messages.Open(nil, nil, nil)
	if err := there.Messages.ConnectAccounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !got.Running {
		t.Errorf("the other node connects it: %+v", got)
	}
	here.peers = onePeer{err: fault.New(fault.Unavailable, "no_worker", "no worker with the labels internet")}
	if got := shown(); got.Running || !strings.Contains(got.Error, "internet") {
		t.Errorf("without a node: %+v", got)
	}
}

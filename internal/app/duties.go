package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/internal/settings"
	"steward/internal/store/cluster"
)

// The duties of a cluster. One node at a time has each.
const (
	dutyChannels = cluster.Channels
	dutyHome     = cluster.Home
)

// peers is what the parts of a node need of the other ones.
type peers interface {
	// Want has a node take a user.
	Want(ctx context.Context, user string) error
	// DialDuty connects to the internal server of the node that has a duty, which may be this one.
	DialDuty(ctx context.Context, duty string) (net.Conn, error)
}

// duties are what a node of a cluster does once for a user or for the whole cluster, beside the turns and the jobs of
// the node itself. It begins when the node gets the user or the duty, and ends when it loses them:
//
//   - of a user: the messages at messengers are handled, the mailboxes and the folders of documents are watched;
//   - of the duty channels: the messengers are connected;
//   - of the duty home: nothing runs by itself, but the connections of all nodes to the home go through this one.
//
// Safe for concurrent use.
type duties struct {
	local *Local
	set   *settings.Loaded

	mu    sync.Mutex
	users map[string]func()  // ends what goes on for a user
	home  context.Context    // ends with the duty home; nil: this node does not have it
	end   context.CancelFunc // of home
}

// openDuties is called once the node is open, in a cluster, in place of Messages.Start, watchMail and the watching of
// folders. Closing the cluster ends what they do, before the node is closed.
func (l *Local) openDuties(set *settings.Loaded) *duties {
	l.Messages.Open(l.node, l.node.Conversations, l.node.Effects)
	return &duties{local: l, set: set, users: map[string]func(){}}
}

// takeUser begins what goes on for a user.
func (d *duties) takeUser(ctx context.Context, user string) error {
	stopMail, err := d.local.watchMail(d.set, user)
	if err != nil {
		return err
	}
	stopDocuments := inBackground(func(ctx context.Context) { d.local.papers.WatchOf(ctx, user) })
	end := func() {
		var all sync.WaitGroup
		all.Go(stopMail)
		all.Go(stopDocuments)
		all.Go(func() { d.local.Messages.LeaveUser(user) })
		all.Wait()
	}
	if err := d.local.Messages.TakeUser(ctx, user); err != nil {
		end()
		return err
	}
	d.mu.Lock()
	old := d.users[user]
	d.users[user] = end
	d.mu.Unlock()
	if old != nil {
		old()
	}
	return nil
}

// leaveUser ends it, and returns when nothing of it is left.
func (d *duties) leaveUser(user string) {
	d.mu.Lock()
	end := d.users[user]
	delete(d.users, user)
	d.mu.Unlock()
	if end != nil {
		end()
	}
}

// busy reports whether a user must not be let go.
func (d *duties) busy(user string) bool { return d.local.Messages.Busy(user) }

// take begins a duty.
func (d *duties) take(ctx context.Context, duty string) error {
	if duty == dutyChannels {
		return d.local.Messages.ConnectAccounts(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if duty == dutyHome && d.home == nil {
		d.home, d.end = context.WithCancel(context.Background())
	}
	return nil
}

// leave ends a duty. Connections to the home that go through this node break, and are made again through the next one.
func (d *duties) leave(duty string) {
	if duty == dutyChannels {
		d.local.Messages.DisconnectAccounts()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if duty == dutyHome && d.home != nil {
		d.end()
		d.home = nil
	}
}

// homeGatePath is where the internal server passes connections on to the home.
const homeGatePath = insidePrefix + "home"

// homeProtocol is what such a connection asks to be upgraded to.
const homeProtocol = "steward-home"

// homeGate passes connections of other nodes on to the Home Assistant of the settings, and nowhere else. It belongs on
// the internal server.
func (d *duties) homeGate() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		held := d.home
		d.mu.Unlock()
		if held == nil {
			auth.WriteError(w, r, d.local.Log, fault.New(fault.Unavailable, "home_moved", "another node has the home now").WithHint("try again"))
			return
		}
		there, err := d.local.dialHome(r.Context(), d.set)
		if err != nil {
			auth.WriteError(w, r, d.local.Log, fault.New(fault.Unavailable, "home_unavailable", "the node that has the home cannot reach it: %w", err).
				WithHint("check that Home Assistant is running, and that this node has the labels of machines that reach it (cluster.needs, home)"))
			return
		}
		defer there.Close()
		rc := http.NewResponseController(w)
		client, buffered, err := rc.Hijack()
		if err != nil {
			auth.WriteError(w, r, d.local.Log, err)
			return
		}
		defer client.Close()
		client.SetDeadline(time.Time{}) //nolint:errcheck // a connection without deadlines has none to remove
		if _, err := io.WriteString(client, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+homeProtocol+"\r\n\r\n"); err != nil {
			return
		}
		defer context.AfterFunc(held, func() { there.Close(); client.Close() })()
		splice(there, readFirst{client, buffered.Reader})
	})
}

// splice passes on what comes from each of two connections to the other one, until one of them ends.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		io.Copy(to, from) //nolint:errcheck // the end of one is the end of both
		to.Close()        //nolint:errcheck // as above
		from.Close()      //nolint:errcheck // as above
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// readFirst is a connection of which some bytes were read already.
type readFirst struct {
	net.Conn
	first *bufio.Reader
}

// Read implements net.Conn.
func (c readFirst) Read(b []byte) (int, error) { return c.first.Read(b) }

// dialHome connects to the Home Assistant of the settings.
func (l *Local) dialHome(ctx context.Context, set *settings.Loaded) (net.Conn, error) {
	u, err := url.Parse(set.Home.URL)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, "home_url_invalid", "home.url (%s) is not an address", set.SourceOf("home.url")).WithHint("run steward home connect URL")
	}
	rule, err := egress.Public(hostPort(u))
	if err != nil {
		return nil, err
	}
	return l.outside.dialer(rule).DialContext(ctx, "tcp", hostPort(u))
}

// throughDuty returns a transport whose connections go through the node that has the duty home, wherever that is.
func (l *Local) throughDuty() http.RoundTripper {
	return &http.Transport{MaxIdleConns: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := l.peers.DialDuty(ctx, dutyHome)
			if err != nil {
				return nil, fault.New(fault.Unavailable, "home_unavailable", "no node of the cluster reaches the home: %w", err).
					WithHint("start a worker on a machine that reaches it, with the labels that cluster.needs has for home (docs/operations/cluster.md)")
			}
			ready, err := askForHome(ctx, c)
			if err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return ready, nil
		}}
}

// askForHome has a connection to the internal server of a node passed on to the home.
func askForHome(ctx context.Context, c net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // the dialer closes it then
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+homeGatePath, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", homeProtocol)
	if err := r.Write(c); err != nil {
		return nil, err
	}
	first := bufio.NewReader(c)
	res, err := http.ReadResponse(first, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer res.Body.Close()
		var answer struct {
			Error struct{ Code, Message, Remedy string }
		}
		body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) //nolint:errcheck // without it the code of the answer says what there is to say
		why := &answer.Error
		if json.Unmarshal(body, &answer) != nil || why.Message == "" {
			why.Code, why.Message = "home_unavailable", "the node that has the home answers "+res.Status
		}
		e := fault.New(fault.Unavailable, why.Code, "%s", why.Message)
		if why.Remedy != "" {
			e = e.WithHint("%s", why.Remedy)
		}
		return nil, e
	}
	return readFirst{c, first}, nil
}

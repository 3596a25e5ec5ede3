package app

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/channel"
	"steward/internal/channel/discord"
	"steward/internal/channel/email"
	"steward/internal/channel/matrix"
	"steward/internal/channel/slack"
	"steward/internal/channel/telegram"
	"steward/internal/channel/webhook"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/messaging"
	"steward/internal/record"
	"steward/internal/server/auth"
	"steward/internal/settings"
	"steward/internal/tool"
	domainlocal "steward/internal/tools/local"
	sendtool "steward/internal/tools/message"
)

// newChannel makes an adapter of an account.
type newChannel func(channel.Options) (channel.Channel, error)

// channelKinds is the table of the messengers that people can reach Steward in.
func channelKinds() map[string]newChannel {
	return map[string]newChannel{
		"discord":  discord.New,
		"email":    email.New,
		"matrix":   matrix.New,
		"slack":    slack.New,
		"telegram": telegram.New,
		"webhook":  func(o channel.Options) (channel.Channel, error) { return webhook.New(o) },
	}
}

// ChannelKinds names the kinds of channels, sorted.
func ChannelKinds() []string { return slices.Sorted(maps.Keys(channelKinds())) }

// ChannelsPath is the path below which programs post events of webhook channels.
const ChannelsPath = "/channels/"

// Channel makes the adapter of an account of the settings. It connects to nothing. Error codes:
// channel_kind_unknown, and those of secrets and of the adapter.
func (l *Local) Channel(ctx context.Context, set *settings.Loaded, name string, s settings.Channel) (channel.Channel, error) {
	kind := cmp.Or(s.Kind, name)
	make, known := channelKinds()[kind]
	if !known {
		return nil, fault.New(fault.Invalid, "channel_kind_unknown", "channels.%s: there is no kind of channel %q", name, kind).
			WithHint("set channels.%s.kind to one of: %s", name, strings.Join(ChannelKinds(), ", "))
	}
	token := ""
	if get := l.SecretOf(s.Token); get != nil {
		var err error
		if token, err = get(ctx); err != nil {
			return nil, err
		}
		if l.Resolver != nil && l.Resolver.Masker != nil {
			for _, part := range strings.Fields(token) { // Slack has two in one
				_ = l.Resolver.Masker.Add("token of the channel "+name, part) // one that is too short cannot be hidden
			}
		}
	}
	transport, err := l.outside.reach(s.BaseURL, "tcp://"+s.Settings["imap"], "tcp://"+s.Settings["smtp"])
	if err != nil {
		return nil, err
	}
	return make(channel.Options{Token: token, BaseURL: s.BaseURL, Client: &http.Client{Transport: transport}, Log: cmp.Or(l.Log, slog.Default()).With("channel", name),
		Dir: filepath.Join(set.Data, "private", "channels", name), State: l.channelState(name), Settings: s.Settings})
}

// channelState is where the nodes of a cluster keep how far an account was read; nil: the node is alone, and uses files.
func (l *Local) channelState(name string) channel.State {
	if l.peers == nil {
		return nil
	}
	return messaging.AccountState(l.Store, name)
}

// openMessaging makes the inbox and the outbox. Accounts are set up only if this process serves.
func (l *Local) openMessaging(ctx context.Context, a *App, set *settings.Loaded, docs *attached) {
	opt := messaging.Options{Store: l.Store, People: l.Keys, Judge: l.Judge, Mask: a.Hidden().Mask, Telemetry: l.telemetry, Log: l.Log,
		Transcribe: func(ctx context.Context, user, mediaType string, data []byte) (string, error) {
			return docs.transcribe(ctx, user, docs.vendorOf(""), &message.File{Name: "the voice message", MIME: mediaType, Data: data})
		}}
	opt.UndoMemory = func(ctx context.Context, user string, conv id.ID) (string, error) {
		f, gone, err := l.memory.UndoLast(ctx, user, conv, record.FactAuthor{Call: id.New(), Actor: "user"})
		if gone {
			return "No longer remembered: " + f.Text, err
		}
		return "It is again: " + f.Text, err
	}
	if l.peers != nil {
		opt.Want = l.peers.Want
	}
	for _, name := range slices.Sorted(maps.Keys(set.Channels)) {
		s := set.Channels[name]
		if !a.Serving && l.peers == nil || s.Off {
			continue
		}
		c, err := l.Channel(ctx, set, name, s)
		if err != nil {
			l.Log.Error("a channel is not set up", "channel", name, "error", err)
			c = broken{err}
		}
		opt.Accounts = append(opt.Accounts, messaging.Account{Name: name, Kind: cmp.Or(s.Kind, name), Channel: c})
	}
	l.Messages = messaging.New(opt)
}

// deliver puts a text for a user into the outbox, for the node.
func (l *Local) deliver(ctx context.Context, user, text string, labels message.Labels, key string) (bool, error) {
	return l.Messages.Deliver(ctx, user, text, labels, key)
}

// messageTools are the tools that write into chats at messengers.
func (l *Local) messageTools(set *settings.Loaded) BuiltIn {
	on := slices.ContainsFunc(slices.Collect(maps.Values(set.Channels)), func(c settings.Channel) bool { return !c.Off })
	return BuiltIn{Name: "message", tools: func() ([]tool.Tool, error) {
		if !on {
			return nil, nil
		}
		k := domainlocal.NewKit(builtInEnv(set, "message"), "domain:message")
		sendtool.Add(k, sender{l})
		return k.Tools()
	}, Health: func(context.Context) domainlocal.Health {
		if !on {
			return domainlocal.Health{State: domainlocal.Off, Say: "no messenger is set up", Remedy: "run steward channels add KIND (docs/guides/messengers.md)"}
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: "messages to chats at " + strings.Join(slices.Sorted(maps.Keys(set.Channels)), ", ")}
	}}
}

// sender is the outbox for the tools, which are made before it.
type sender struct{ l *Local }

// Send implements the sender of the tools.
func (s sender) Send(ctx context.Context, user, to, text, key string) (string, error) {
	return s.l.Messages.SendTo(ctx, user, to, text, key)
}

// Chats implements the sender of the tools.
func (s sender) Chats(ctx context.Context, user string) (names []string, err error) {
	list, err := s.l.Messages.Places(ctx, user)
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names, err
}

// channelEvents takes what programs post to channels that are reached over HTTP. Each checks signatures of its own. An
// account that is not connected yet answers that the program should try again.
func (l *Local) channelEvents() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := l.Messages.Channel(strings.TrimPrefix(r.URL.Path, ChannelsPath)).(http.Handler)
		if !ok {
			auth.WriteError(w, r, l.Log, fault.New(fault.NotFound, "unknown_url", "there is no %.200s", r.URL.Path).
				WithHint("post to %sNAME, where channels.NAME is of the kind webhook", ChannelsPath))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// accounts are the accounts at messengers, as the node sees them that connects them. It implements api.Channels.
type accounts struct {
	*messaging.Engine
	l *Local
}

// Channels implements api.Channels. Another node of the cluster may connect the accounts.
func (a accounts) Channels(ctx context.Context) ([]client.Channel, error) {
	own, err := a.Engine.Channels(ctx)
	if err != nil || len(own) == 0 || a.l.peers == nil || a.Connects() {
		return own, err
	}
	ctx, cancel := context.WithTimeout(ctx, accountsTime)
	defer cancel()
	there, err := a.l.accountsThere(ctx)
	if err != nil {
		for i := range own {
			own[i].Error = "no node of the cluster connects it: " + fault.Of(err).Message
		}
		return own, nil
	}
	return there, nil
}

const (
	accountsInside = insidePrefix + "channels" // where nodes say how their accounts are
	accountsTime   = 5 * time.Second           // how long one may take to say so
)

// accountsThere asks the node that connects the accounts.
func (l *Local) accountsThere(ctx context.Context) (list []client.Channel, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+accountsInside, http.NoBody)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.peers.DialDuty(ctx, dutyChannels) }}
	res, err := t.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Unavailable, "duty_moved", "the node that connects the messengers answers %s", res.Status)
	}
	return list, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&list)
}

// accountsHere tells the other nodes how the accounts are that this one connects.
func (l *Local) accountsHere() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := l.Messages.Channels(r.Context())
		if err == nil && !l.Messages.Connects() {
			err = fault.New(fault.Unavailable, "duty_moved", "another node connects the messengers now")
		}
		if err != nil {
			auth.WriteError(w, r, l.Log, err)
			return
		}
		json.NewEncoder(w).Encode(list) //nolint:errcheck // the other node notices
	})
}

// broken is a channel that cannot be set up. It never connects, and says why.
type broken struct{ why error }

// Check implements channel.Channel.
func (b broken) Check(context.Context) (string, error) { return "", b.why }

// Run implements channel.Channel.
func (b broken) Run(context.Context, func(), func(context.Context, []channel.Update) error) error {
	return b.why
}

// Send implements channel.Channel.
func (b broken) Send(context.Context, channel.Outgoing) (string, error) {
	return "", channel.Unreachable("the channel", b.why)
}

// Edit implements channel.Channel.
func (b broken) Edit(context.Context, channel.Address, string, channel.Outgoing) error {
	return channel.Unreachable("the channel", b.why)
}

// Typing implements channel.Channel.
func (b broken) Typing(context.Context, channel.Address) error { return b.why }

// Fetch implements channel.Channel.
func (b broken) Fetch(context.Context, channel.Attachment) (io.ReadCloser, error) {
	return nil, b.why
}

// Render implements channel.Channel.
func (b broken) Render(markdown string) []string { return []string{markdown} }

// Limits implements channel.Channel.
func (b broken) Limits() channel.Limits { return channel.Limits{} }

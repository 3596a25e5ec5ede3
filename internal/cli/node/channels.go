package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/settings"
)

func (a *program) channelsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "channels", Aliases: []string{"channel"}, Short: "Let people reach Steward in messengers", GroupID: "keep",
		Long: "Accounts at messengers in which people talk to Steward: the messages wait in an inbox until they are\n" +
			"answered, and answers wait in an outbox until they are sent. steward serve connects them. Somebody who\n" +
			"writes for the first time gets a code; steward pair CODE says which user that is.",
	}, a.addChannel(), a.listChannels(), a.testChannels(), a.removeChannel(), a.channelPeople(), a.channelInbox(), a.channelOutbox())
}

// channelFlags holds the flags of channels add.
type channelFlags struct {
	name, baseURL string
	set           map[string]string
	unchecked     bool
}

func (a *program) addChannel() *cobra.Command {
	var o channelFlags
	c := &cobra.Command{
		Use: "add KIND", Short: "Set up an account at a messenger", ValidArgs: app.ChannelKinds(),
		Long: "Set up an account at a messenger: " + strings.Join(app.ChannelKinds(), ", ") + ". You are asked for its\n" +
			"token without echo, or it is read from standard input. Steward asks the service who the account is, and\n" +
			"stores nothing if that fails. The token becomes a secret; the rest is written to your settings file. A\n" +
			"running steward serve uses it after its next start. docs/guides/messengers.md says how to get a token.",
		Example: "  steward channels add telegram\n  steward channels add webhook --name door --base-url https://door.example.com/steward",
		RunE:    func(c *cobra.Command, args []string) error { return a.setUpChannel(c.Context(), args[0], &o) },
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "the `NAME` of the account in the settings; by default its kind")
	f.StringVar(&o.baseURL, "base-url", "", "`URL` of the service, if it is not the public one")
	f.StringToStringVar(&o.set, "set", nil, "what this service needs besides, as `KEY=VALUE`")
	f.BoolVar(&o.unchecked, "unchecked", false, "do not ask the service who the account is")
	return c
}

func (a *program) setUpChannel(ctx context.Context, kind string, o *channelFlags) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	if !slices.Contains(app.ChannelKinds(), kind) {
		return command.Usage("there is no kind of channel %.40q; there are %s", kind, strings.Join(app.ChannelKinds(), ", "))
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	name := cmp.Or(o.name, kind)
	if old, there := set.Channels[name]; there && !old.Off {
		return fault.New(fault.Conflict, "channel_exists", "the settings already have a channel %s", name).WithHint("choose another name with --name, or remove it first: steward channels remove %s", name)
	}
	token, err := a.ReadSecret(ctx, "Token")
	if err != nil {
		return err
	}
	who, err := a.AddChannel(ctx, set, file, app.NewChannel{Name: name, Kind: kind, Token: token, BaseURL: o.baseURL, Settings: o.set, Unchecked: o.unchecked})
	if err != nil {
		return err
	}
	return a.PrintDone(map[string]string{"name": name, "kind": kind, "account": who}, nil,
		"✓ the channel %s is set up in %s\n  start steward serve (again), write to %s, and enter the code that you get: steward pair CODE", name, file, cmp.Or(who, "the account"))
}

func (a *program) listChannels() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the accounts, whether they are connected, and what waits",
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			list, err := command.ReadList(c.Context(), a.Program, func(s *command.Session) ([]client.Channel, error) { return s.Channels(c.Context()) })
			for _, name := range slices.Sorted(maps.Keys(set.Channels)) {
				if !slices.ContainsFunc(list, func(x client.Channel) bool { return x.Account == name }) {
					list = append(list, client.Channel{Account: name, Kind: cmp.Or(set.Channels[name].Kind, name), Error: map[bool]string{true: "turned off"}[set.Channels[name].Off]})
				}
			}
			return command.PrintList(a.Program, list, err, "there are no channels; steward channels add sets one up", channelTable)
		},
	}
}

func channelTable(list []client.Channel) string {
	rows := [][]string{{"CHANNEL", "KIND", "STATE", "PEOPLE", "TO ANSWER", "TO SEND", "TO LOOK AT"}}
	for _, x := range list {
		state := "not running: steward serve connects it"
		switch {
		case !x.Connected.IsZero():
			state = "connected since " + x.Connected.Local().Format("2 Jan 15:04")
		case x.Error != "":
			state = command.PlainLine(x.Error)
		case x.Running:
			state = "connecting"
		}
		rows = append(rows, []string{x.Account, x.Kind, state, fmt.Sprint(x.People), fmt.Sprint(x.Received), fmt.Sprint(x.Unsent), fmt.Sprint(x.Unsettled)})
	}
	return command.Columns(rows, 0)
}

func (a *program) testChannels() *cobra.Command {
	return &cobra.Command{
		Use: "test [NAME]", Short: "Ask the services who the accounts are", ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if _, there := set.Channels[args[0]]; !there {
					return channelUnknown(args[0])
				}
			}
			return a.printChecks(a.checkChannels(c.Context(), set, bad, args...))
		},
	}
}

func channelUnknown(name string) error {
	return fault.New(fault.NotFound, "channel_unknown", "the settings have no channel %.80q", name).WithHint("steward channels list shows them")
}

// checkChannels asks the services of all accounts, or of the named ones, who they are. status is that of a
// failure.
func (a *program) checkChannels(ctx context.Context, set *settings.Loaded, status string, names ...string) []check {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(set.Channels))
	}
	var checks []check
	for _, name := range names {
		s := set.Channels[name]
		if s.Off {
			checks = append(checks, check{Name: "channel", Status: off, Say: name + " is turned off"})
			continue
		}
		if who, err := a.CheckChannel(ctx, set, name, s); err != nil {
			f := failed("channel", status, err)
			f.Say = name + ": " + f.Say
			checks = append(checks, f)
		} else {
			checks = append(checks, fine("channel", "%s is %s", name, who))
		}
	}
	return checks
}

func (a *program) removeChannel() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Turn an account off, and forget its token",
		Long: "Turn an account off, and forget its token. Its messages and who is paired stay recorded; steward channels\n" +
			"add with the same name turns it on again.",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			s, there := set.Channels[args[0]]
			if !there {
				return channelUnknown(args[0])
			}
			if err := app.RemoveChannel(set, settings.UserFile(a.Environ), args[0], s); err != nil {
				return err
			}
			return a.PrintDone(map[string]string{"name": args[0]}, nil, "the channel %s is turned off from the next start of steward serve on", args[0])
		},
	}
}

func (a *program) channelPeople() *cobra.Command {
	return command.ListCommand(a.Program, &cobra.Command{Use: "people", Short: "List who is paired with which user"}, "nobody is paired; whoever writes to a channel gets a code for steward pair",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.ChannelPerson, error) {
			return s.ChannelPeople(ctx)
		},
		func(list []client.ChannelPerson) string {
			rows := [][]string{{"ID", "USER", "CHANNEL", "SENDER", "NAME", "SINCE"}}
			for _, p := range list {
				rows = append(rows, []string{p.ID[:8], p.User, p.Account, command.PlainLine(p.Sender), command.PlainLine(p.Name), p.Since.Local().Format(time.DateOnly)})
			}
			return command.Columns(rows, 0)
		})
}

func (a *program) channelInbox() *cobra.Command {
	var whole bool
	c := command.ListCommand(a.Program, &cobra.Command{Use: "inbox", Short: "List your messages that are not answered",
		Long: "List your messages at messengers that wait for an answer or could not be answered, newest first."}, "every message is answered",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.ChannelUpdate, error) {
			return s.ChannelInbox(ctx, whole)
		},
		func(list []client.ChannelUpdate) string {
			rows := [][]string{{"AT", "CHANNEL", "FROM", "STATE", "TEXT"}}
			for _, u := range list {
				rows = append(rows, []string{u.At.Local().Format("2 Jan 15:04"), u.Account, command.PlainLine(u.From), u.State, command.PlainLine(cmp.Or(u.Reason, u.Text))})
			}
			return command.Columns(rows, 120)
		})
	c.Flags().BoolVar(&whole, "all", false, "also those that are answered")
	return c
}

func (a *program) channelOutbox() *cobra.Command {
	var whole bool
	c := command.ListCommand(a.Program, &cobra.Command{Use: "outbox", Short: "List messages to you that are not known to be sent",
		Long: "List Steward's messages to you that wait to be sent, could not be sent, or may or may not have been sent\n" +
			"(uncertain: look into the chat), newest first."}, "every message is sent",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.ChannelPost, error) {
			return s.ChannelOutbox(ctx, whole)
		},
		func(list []client.ChannelPost) string {
			rows := [][]string{{"AT", "CHANNEL", "STATE", "REASON", "TEXT"}}
			for _, p := range list {
				rows = append(rows, []string{p.At.Local().Format("2 Jan 15:04"), p.Account, p.State, command.PlainLine(cmp.Or(p.Reason, "-")), command.PlainLine(p.Text)})
			}
			return command.Columns(rows, 120)
		})
	c.Flags().BoolVar(&whole, "all", false, "also those that are sent")
	return c
}

func (a *program) pairCommand() *cobra.Command {
	var user string
	c := a.APICommand(command.NeedDatabase, &cobra.Command{
		Use: "pair CODE", Short: "Say which user somebody at a messenger is", GroupID: "keep",
		Long: "Say which user the sender is who got a code. From then on whoever has that account at the messenger\n" +
			"talks to Steward as this user, and answers the user's questions.",
		Example: "  steward pair 7KQ2MXPA\n  steward pair 7KQ2MXPA --user ada",
	}, func(ctx context.Context, s *command.Session, args []string) error {
		p, err := s.Pair(ctx, args[0], user)
		return a.PrintDone(p, err, "%s at %s is %s", command.PlainLine(cmp.Or(p.Name, p.Sender)), p.Account, p.User)
	})
	c.Flags().StringVar(&user, "user", "", "the `NAME` of the user; by default yours")
	return c
}

func (a *program) unpairCommand() *cobra.Command {
	return a.APICommand(command.NeedDatabase, &cobra.Command{
		Use: "unpair ID…", Short: "Forget who somebody at a messenger is", GroupID: "keep",
		Long: "Forget who somebody at a messenger is, at once. steward channels people shows the IDs.",
	}, func(ctx context.Context, s *command.Session, args []string) error {
		for _, x := range args {
			if err := s.Unpair(ctx, x); err != nil {
				return err
			}
			a.Note("unpaired %s", x)
		}
		return nil
	})
}

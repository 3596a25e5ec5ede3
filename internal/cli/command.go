package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// group makes a command that only has subcommands. Alone it does what its subcommand list does,
// if it has one.
func group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	for _, b := range below {
		if b.Name() == "list" {
			c.RunE = func(c *cobra.Command, args []string) error {
				b.SetContext(c.Context())
				return b.RunE(b, args)
			}
			c.Long += "\n\nWithout a subcommand, it lists them."
		}
	}
	c.AddCommand(below...)
	return c
}

// apiFunc is the part of a command that uses the API.
type apiFunc = func(ctx context.Context, s *session, args []string) error

// apiCommand makes a command that uses the API, which is opened only as far as needed.
func (a *program) apiCommand(n need, c *cobra.Command, do apiFunc) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.with(c.Context(), n, func(s *session) error { return do(c.Context(), s, args) })
	}
	return c
}

// about makes a command like over that needs stored data.
func (a *program) about(n need, c *cobra.Command, do apiFunc) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.withStored(c.Context(), n, func(s *session) error { return do(c.Context(), s, args) })
	}
	return c
}

// lists makes a command that lists what is stored: as JSON, or as text. It
// prints none if the list is empty.
func lists[T any](a *program, c *cobra.Command, none string, fetch func(context.Context, *session, []string) ([]T, error), draw func([]T) string) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		list, err := readList(c.Context(), a, func(s *session) ([]T, error) { return fetch(c.Context(), s, args) })
		return printList(a, list, err, none, draw)
	}
	return c
}

// readList reads a list of what is stored. It is empty if nothing is stored.
func readList[T any](ctx context.Context, a *program, read func(*session) ([]T, error)) (list []T, err error) {
	err = a.with(ctx, needReadOnly, func(s *session) (err error) {
		list, err = read(s)
		return err
	})
	if errors.Is(err, errNothingYet) {
		err = nil
	}
	return orEmpty(list), err
}

// printList prints a list, or returns the error of reading it.
func printList[T any](a *program, list []T, err error, none string, draw func([]T) string) error {
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(orEmpty(list))
	case len(list) == 0:
		a.Note("%s", none)
		return nil
	}
	return a.print(draw(list))
}

// printValue prints one value as JSON or as text, or returns the error of reading it.
func printValue[T any](a *program, v T, err error, text func(T) string) error {
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(v)
	}
	return a.print(text(v))
}

// printDone prints a note about what was done, or the result as JSON.
func (a *program) printDone(v any, err error, format string, args ...any) error {
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(v)
	}
	a.Note(format, args...)
	return nil
}

// argsOf derives the number of arguments from the usage of a command: NAME is one, [NAME]
// is optional, NAME… is one or more.
func argsOf(use string) cobra.PositionalArgs {
	least, most := 0, 0
	for _, word := range strings.Fields(use)[1:] {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		most++
		if strings.Contains(word, "…") || strings.Contains(word, "...") {
			most = -1
			break
		}
	}
	switch {
	case most < 0:
		return cobra.MinimumNArgs(least)
	case most == 0:
		return cobra.NoArgs
	case least == most:
		return cobra.ExactArgs(most)
	}
	return cobra.RangeArgs(least, most)
}

// strict makes a tree of commands check the number of arguments, and report wrong arguments
// and flags as usage errors.
func strict(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = argsOf(c.Use)
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err != nil {
			err = argumentError(c, args, err)
		} else {
			err = c.ValidateFlagGroups()
		}
		var use usageError
		if err != nil && !errors.As(err, &use) {
			return usageError{err}
		}
		return err
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// argumentError says in words what is missing on the command line or too much, where cobra only
// counts.
func argumentError(c *cobra.Command, args []string, err error) error {
	var use usageError
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case errors.As(err, &use), takes == "":
		return err
	case len(args) == 0:
		return usage("%s is missing: write %s %s", strings.Fields(takes)[0], c.CommandPath(), takes)
	}
	return usage("wrong arguments: write %s %s", c.CommandPath(), takes)
}

// atLeastOne is the value of a flag that takes a number of at least 1.
type atLeastOne int

func (n *atLeastOne) String() string { return strconv.Itoa(int(*n)) }
func (n *atLeastOne) Type() string   { return "int" }

// Set implements pflag.Value.
func (n *atLeastOne) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return errors.New("must be 1 or more")
	}
	*n = atLeastOne(v)
	return nil
}

// limitFlag adds --limit with the default def.
func limitFlag(c *cobra.Command, limit *int, def int, about string) {
	*limit = def
	c.Flags().Var((*atLeastOne)(limit), "limit", about)
}

// ago is the value of a flag that takes a date, or a duration before now.
type ago struct {
	at   *time.Time
	text string
}

func (v *ago) String() string { return v.text }
func (v *ago) Type() string   { return "string" }

// Set implements pflag.Value.
func (v *ago) Set(text string) (err error) {
	*v.at, err = parsePast(text, time.Now())
	v.text = text
	return err
}

// sinceUntil adds --since and --until.
func sinceUntil(c *cobra.Command, since, until *time.Time, what string) {
	c.Flags().Var(&ago{at: since}, "since", "only "+what+" after this time: a duration before now such as 24h or 7d, or a `DATE` such as 2030-01-31")
	c.Flags().Var(&ago{at: until}, "until", "only "+what+" before this time: a duration or `DATE` as for --since")
}

// parsePast parses a date, or a duration before now.
func parsePast(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, ok := days(text); ok {
		return now.AddDate(0, 0, -d), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, ok := dateOf(text, now.Location()); ok {
		return t, nil
	}
	return time.Time{}, errors.New("give a duration such as 24h or 7d, or a date such as 2030-01-31")
}

// days parses a number of days or weeks, such as 7d or 2w.
func days(text string) (int, bool) {
	unit := map[byte]int{'d': 1, 'w': 7}[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	return n * unit, unit > 0 && err == nil && n >= 0 && n <= 36500
}

// dateOf parses a date, optionally with a time.
func dateOf(text string, zone *time.Location) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// yesFlag adds --yes.
func yesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

// completeTimeout is how long a shell may be kept waiting for names.
const completeTimeout = 5 * time.Second

type completer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete registers the completions of a flag. It fails only if the flag does not exist,
// which is a bug in this package.
func complete(c *cobra.Command, flag string, f completer) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func words(list ...string) completer {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// offer offers names. It hides errors from the shell.
func offer(c *cobra.Command, names func(context.Context) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmp.Or(c.Context(), context.Background()), completeTimeout)
	defer cancel()
	out, err := names(ctx)
	if err != nil {
		out = nil
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// offers completes with the items of a list, each with its name and description. Items
// that are already on the command line are left out.
func offers[T any](a *program, n need, list func(context.Context, *session) ([]T, error), name func(*T) (string, string)) completer {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
			err = a.with(ctx, n, func(s *session) error {
				all, err := list(ctx, s)
				for i := range all {
					if own, about := name(&all[i]); !slices.Contains(args, own) {
						out = append(out, cobra.CompletionWithDesc(own, plainLine(about)))
					}
				}
				return err
			})
			return out, err
		})
	}
}

// after completes the first argument with one completer, and the others with another.
func after(first, others completer) completer {
	return func(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return first(c, args, to)
		}
		return others(c, args[1:], to)
	}
}

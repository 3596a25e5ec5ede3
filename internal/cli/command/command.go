package command

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Group makes a command that only has subcommands. Alone it does what its subcommand list does,
// if it has one.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
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

// APIFunc is the part of a command that uses the API.
type APIFunc = func(ctx context.Context, s *Session, args []string) error

// APICommand makes a command that uses the API, which is opened only as far as needed.
func (a *Program) APICommand(n Need, c *cobra.Command, do APIFunc) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.With(c.Context(), n, func(s *Session) error { return do(c.Context(), s, args) })
	}
	return c
}

// StoredCommand makes a command like APICommand that fails if nothing is stored.
func (a *Program) StoredCommand(n Need, c *cobra.Command, do APIFunc) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.WithStored(c.Context(), n, func(s *Session) error { return do(c.Context(), s, args) })
	}
	return c
}

// ListCommand makes a command that lists what is stored: as JSON, or as text. It
// prints none if the list is empty.
func ListCommand[T any](a *Program, c *cobra.Command, none string, fetch func(context.Context, *Session, []string) ([]T, error), draw func([]T) string) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		list, err := ReadList(c.Context(), a, func(s *Session) ([]T, error) { return fetch(c.Context(), s, args) })
		return PrintList(a, list, err, none, draw)
	}
	return c
}

// ReadList reads a list of what is stored. It is empty if nothing is stored.
func ReadList[T any](ctx context.Context, a *Program, read func(*Session) ([]T, error)) (list []T, err error) {
	err = a.With(ctx, NeedReadOnly, func(s *Session) (err error) {
		list, err = read(s)
		return err
	})
	if errors.Is(err, ErrNothingStored) {
		err = nil
	}
	return OrEmpty(list), err
}

// PrintList prints a list, or returns the error of reading it.
func PrintList[T any](a *Program, list []T, err error, none string, draw func([]T) string) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(OrEmpty(list))
	case len(list) == 0:
		a.Note("%s", none)
		return nil
	}
	return a.Print(draw(list))
}

// PrintValue prints one value as JSON or as text, or returns the error of reading it.
func PrintValue[T any](a *Program, v T, err error, text func(T) string) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(v)
	}
	return a.Print(text(v))
}

// PrintDone prints a note about what was done, or the result as JSON.
func (a *Program) PrintDone(v any, err error, format string, args ...any) error {
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(v)
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

// Strict makes a tree of commands check the number of arguments, and report wrong arguments
// and flags as usage errors.
func Strict(c *cobra.Command) {
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
		var use UsageError
		if err != nil && !errors.As(err, &use) {
			return UsageError{err}
		}
		return err
	}
	for _, sub := range c.Commands() {
		Strict(sub)
	}
}

// argumentError says in words what is missing on the command line or too much, where cobra only
// counts.
func argumentError(c *cobra.Command, args []string, err error) error {
	var use UsageError
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case errors.As(err, &use), takes == "":
		return err
	case len(args) == 0:
		return Usage("%s is missing: write %s %s", strings.Fields(takes)[0], c.CommandPath(), takes)
	}
	return Usage("wrong arguments: write %s %s", c.CommandPath(), takes)
}

// AtLeastOne is the value of a flag that takes a number of at least 1.
type AtLeastOne int

func (n *AtLeastOne) String() string { return strconv.Itoa(int(*n)) }
func (n *AtLeastOne) Type() string   { return "int" }

// Set implements pflag.Value.
func (n *AtLeastOne) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return errors.New("must be 1 or more")
	}
	*n = AtLeastOne(v)
	return nil
}

// LimitFlag adds --limit with the default def.
func LimitFlag(c *cobra.Command, limit *int, def int, about string) {
	*limit = def
	c.Flags().Var((*AtLeastOne)(limit), "limit", about)
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

// SinceUntil adds --since and --until.
func SinceUntil(c *cobra.Command, since, until *time.Time, what string) {
	c.Flags().Var(&ago{at: since}, "since", "only "+what+" after this time: a duration before now such as 24h or 7d, or a `DATE` such as 2030-01-31")
	c.Flags().Var(&ago{at: until}, "until", "only "+what+" before this time: a duration or `DATE` as for --since")
}

// parsePast parses a date, or a duration before now.
func parsePast(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, ok := Days(text); ok {
		return now.AddDate(0, 0, -d), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, ok := DateOf(text, now.Location()); ok {
		return t, nil
	}
	return time.Time{}, errors.New("give a duration such as 24h or 7d, or a date such as 2030-01-31")
}

// Days parses a number of days or weeks, such as 7d or 2w.
func Days(text string) (int, bool) {
	unit := map[byte]int{'d': 1, 'w': 7}[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	return n * unit, unit > 0 && err == nil && n >= 0 && n <= 36500
}

// DateOf parses a date, optionally with a time.
func DateOf(text string, zone *time.Location) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// YesFlag adds --yes.
func YesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/audit"
	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

func (a *app) auditCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "audit", Short: "Prove what happened, and export it", GroupID: "look",
		Long: "Prove what happened, and export it. Steward's log is under a chain of hashes: an entry that was\n" +
			"changed, deleted, put in or moved behind Steward's back is found. docs/operations/audit.md says how.",
	}, a.auditVerify(), a.auditHead(), a.auditExport())
}

// openAudit opens the log to read, beside a Steward that runs too: that of the
// data folder, or of a copy of its database.
func (a *app) openAudit(ctx context.Context, file string) (*audit.Log, io.Closer, error) {
	set, err := a.settings()
	if err != nil {
		return nil, nil, err
	}
	path := database(set.Data)
	if file != "" {
		path = a.path(file)
	}
	st, err := sqlite.Open(ctx, sqlite.Options{Path: path, ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	l, err := audit.New(st, audit.Options{Mask: a.hidden().Mask})
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	return l, st, nil
}

func (a *app) auditHead() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "head", Short: "Show the head of the chain, to be kept elsewhere", Args: cobra.NoArgs,
		Long: "Show the head of the chain: one hash that stands for all of the log up to an entry. Keep it where\n" +
			"somebody who can change the log cannot change it; steward audit verify --anchor tells later\n" +
			"whether the log is still the one that it was. The setting audit.anchor_file does so by itself.",
		Example: "  steward audit head >> /mnt/elsewhere/heads",
		RunE: func(c *cobra.Command, _ []string) error {
			l, st, err := a.openAudit(c.Context(), file)
			if err != nil {
				return err
			}
			h, err := l.Head(c.Context())
			if err = errors.Join(err, st.Close()); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(h)
			}
			_, err = fmt.Fprintln(a.stdout, audit.FormatHead(h))
			return err
		},
	}
	c.Flags().StringVar(&file, "database", "", "a copy of the database in `FILE`, in place of Steward's own")
	return c
}

// auditFlags is what steward audit verify was asked for.
type auditFlags struct {
	anchors          []string
	database, export string
}

func (a *app) auditVerify() *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use: "verify", Short: "Look whether the log is as it was written", Args: cobra.NoArgs,
		Long: "Look through the whole log, or an export of it, and tell the first thing that is not as it was\n" +
			"written. What is changed consistently, by somebody who makes a whole chain anew, is found by\n" +
			"the heads that were kept elsewhere: those of --anchor, and of the setting audit.anchor_file.",
		Example: "  steward audit verify\n  steward audit verify --anchor 812:5f0c… --database /backup/steward.db\n  steward audit verify --export log.jsonl",
		RunE:    func(c *cobra.Command, _ []string) error { return a.verifyAudit(c.Context(), f) },
	}
	c.Flags().StringArrayVar(&f.anchors, "anchor", nil, "a `HEAD` from before, as steward audit head prints it, or a file with such lines")
	c.Flags().StringVar(&f.database, "database", "", "a copy of the database in `FILE`, in place of Steward's own")
	c.Flags().StringVar(&f.export, "export", "", "an export in `FILE` (- is standard input), without any database")
	c.MarkFlagsMutuallyExclusive("database", "export")
	return c
}

func (a *app) verifyAudit(ctx context.Context, f auditFlags) error {
	anchors, err := a.anchors(f)
	if err != nil {
		return err
	}
	if f.export != "" {
		return a.verifyExport(f.export, anchors)
	}
	l, st, err := a.openAudit(ctx, f.database)
	if err != nil {
		return err
	}
	v, err := l.Verify(ctx, anchors...)
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(v)
	} else {
		err = a.tellVerdict(v, len(anchors))
	}
	if err == nil && v.Flaw != nil {
		return exitCode(exitFailed)
	}
	return err
}

// anchors are the heads from before: those named, and those that Steward kept.
func (a *app) anchors(f auditFlags) (out []store.Head, err error) {
	for _, s := range f.anchors {
		h, err := audit.ParseHead(s)
		if err == nil {
			out = append(out, h)
			continue
		}
		if strings.Contains(s, ":") && !strings.ContainsAny(s, "/\\") {
			return nil, err
		}
		list, err := audit.ReadAnchors(a.path(s))
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	set, err := a.settings()
	if err != nil || set.Audit.AnchorFile == "" || f.export != "" {
		return out, err
	}
	list, err := audit.ReadAnchors(set.Audit.AnchorFile)
	if errors.Is(err, fs.ErrNotExist) {
		a.note("%s is not there yet: nothing is known of the log from elsewhere", set.Audit.AnchorFile)
		return out, nil
	}
	return append(out, list...), err
}

func (a *app) tellVerdict(v store.Verdict, anchors int) error {
	if f := v.Flaw; f != nil {
		return a.tellFlaw(f)
	}
	var b strings.Builder
	switch {
	case v.Last == 0:
		b.WriteString("The log is empty.\n")
	default:
		fmt.Fprintf(&b, "The log is as it was written: %s", counted(int(v.Last), "entry", "entries"))
		if v.Open > 0 {
			fmt.Fprintf(&b, ", the last %d not sealed yet", v.Open)
		}
		b.WriteString(".\n")
	}
	if v.Erased > 0 {
		fmt.Fprintf(&b, "%s erased for good, which their hashes outlive.\n", map[bool]string{true: "One body was", false: fmt.Sprintf("%d bodies were", v.Erased)}[v.Erased == 1])
	}
	if anchors > 0 {
		fmt.Fprintf(&b, "%s hold.\n", counted(anchors, "head that was kept elsewhere does", "heads that were kept elsewhere"))
	}
	if v.Head.Seq > 0 {
		fmt.Fprintf(&b, "head  %s\n", audit.FormatHead(v.Head))
	}
	return a.print(b.String())
}

func (a *app) tellFlaw(f *store.Flaw) error {
	at := fmt.Sprintf("entry %d", f.Seq)
	if f.Through > f.Seq {
		at = fmt.Sprintf("entries %d to %d", f.Seq, f.Through)
	}
	if !f.URI.Zero() {
		at += ", " + f.URI.String()
	}
	_, err := fmt.Fprintf(a.stdout, "NOT as it was written: %s\n  %s\n", at, plainLine(f.What))
	a.note("Keep a copy of the database as it is, and compare it with a backup (docs/operations/audit.md).")
	return err
}

func (a *app) verifyExport(file string, anchors []store.Head) error {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(a.path(file))
		if err != nil {
			return fault.New(fault.NotFound, "export_unreadable", "the export cannot be read: %w", err).WithHint("name a file that steward audit export has written")
		}
		defer f.Close()
		in = f
	}
	c, err := audit.VerifyExport(in, anchors...)
	if err != nil {
		return err
	}
	switch {
	case a.json:
		err = a.printJSON(c)
	case c.Flaw != nil:
		err = a.tellFlaw(c.Flaw)
	default:
		_, err = fmt.Fprintf(a.stdout, "The export is as it was written: %s, and the hashes of %d more.\nfrom  %s\nhead  %s\n",
			counted(int(c.Entries), "entry", "entries"), c.Omitted, audit.FormatHead(c.After), audit.FormatHead(c.Head))
		if len(c.Beyond) > 0 {
			a.note("The export says nothing about the heads at %s: they lie outside of it.", strings.Trim(fmt.Sprint(c.Beyond), "[]"))
		}
	}
	if err == nil && c.Flaw != nil {
		return exitCode(exitFailed)
	}
	return err
}

// exportFlags is what steward audit export was asked for.
type exportFlags struct {
	since, until, user, under, file, database string
	bodies                                    bool
}

func (a *app) auditExport() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "export", Short: "Write the log as JSON lines that prove themselves", Args: cobra.NoArgs,
		Long: "Write the log as JSON lines: who did what, when, on whose request; who approved it, and by which\n" +
			"rule; what the model was shown. With the hashes of what is left out, so that\n" +
			"steward audit verify --export can tell whether it is as it was written, without any database.",
		Example: "  steward audit export --since 7d > week.jsonl\n  steward audit export --user ada --bodies --output ada.jsonl",
		RunE:    func(c *cobra.Command, _ []string) error { return a.exportAudit(c.Context(), f) },
	}
	c.Flags().StringVar(&f.since, "since", "", "only entries since then: a duration such as 24h or 7d, or a `DATE` such as 2030-01-31")
	c.Flags().StringVar(&f.until, "until", "", "only entries before then: a duration or `DATE` like those of --since")
	c.Flags().StringVar(&f.user, "user", "", "only what the user `NAME` did, and what is in his space")
	c.Flags().StringVar(&f.under, "under", "", "only changes at or below the place `URI`")
	c.Flags().BoolVar(&f.bodies, "bodies", false, "with what was written, and the arguments of tool calls")
	c.Flags().StringVarP(&f.file, "output", "o", "", "write to `FILE`, which only you can read, in place of standard output")
	c.Flags().StringVar(&f.database, "database", "", "a copy of the database in `FILE`, in place of Steward's own")
	return c
}

func (a *app) exportAudit(ctx context.Context, f exportFlags) (err error) {
	q := audit.Query{User: f.user, Bodies: f.bodies}
	if q.Since, err = past("--since", f.since, aDuration, time.Now()); err != nil {
		return err
	}
	if q.Until, err = past("--until", f.until, aDuration, time.Now()); err != nil {
		return err
	}
	if f.under != "" {
		if q.Under, err = resource.Parse(f.under); err != nil {
			return err
		}
	}
	l, st, err := a.openAudit(ctx, f.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	out := a.stdout
	if f.file != "" {
		file, err := os.OpenFile(a.path(f.file), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fault.New(fault.Invalid, "output_unwritable", "%s cannot be written: %w", f.file, err).WithHint("name another file")
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
		out = file
	}
	return l.Export(ctx, audit.Reader{User: a.user(), All: true}, q, out)
}

// anchor keeps the head of the log in the file that the settings name; nil:
// they name none.
func (l *local) anchor(set *settings.Loaded) func(context.Context) error {
	file := set.Audit.AnchorFile
	if file == "" {
		return nil
	}
	return func(ctx context.Context) error { return l.audit.Anchor(ctx, file) }
}

package activity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/store/sqlite"
	"steward/internal/tree"
)

func (a *program) auditCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "audit", Short: "Verify and export the log", GroupID: "look",
		Long: "Verify and export the log. A chain of hashes protects Steward's log, so that an entry which was\n" +
			"changed, deleted, inserted or moved behind Steward's back is detected. docs/operations/audit.md\n" +
			"explains how.",
	}, a.auditVerify(), a.auditHead(), a.auditExport())
}

// withAudit opens the log of the data folder, or of a copy of its database, for reading,
// even while a Steward uses it.
func (a *program) withAudit(ctx context.Context, file string, do func(*audit.Log) error) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	var st app.Store
	if file != "" {
		st, err = sqlite.Open(ctx, sqlite.Options{Path: a.Path(file), ReadOnly: true})
	} else {
		st, err = a.ReadStore(ctx, set)
	}
	if err != nil {
		return err
	}
	l, err := audit.New(st, audit.Options{Mask: a.Hidden().Mask})
	if err == nil {
		err = do(l)
	}
	return errors.Join(err, st.Close())
}

func (a *program) auditHead() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "head", Short: "Print the head of the hash chain, to store elsewhere",
		Long: "Print the head of the hash chain: one hash that covers the whole log up to an entry. Store it where\n" +
			"somebody who can change the log cannot change it. Later, steward audit verify --anchor checks that\n" +
			"the log is still the same. The setting audit.anchor_file stores heads automatically.",
		Example: "  steward audit head >> /mnt/elsewhere/heads",
		RunE: func(c *cobra.Command, _ []string) error {
			var h store.Head
			err := a.withAudit(c.Context(), file, func(l *audit.Log) (err error) {
				h, err = l.Head(c.Context())
				return err
			})
			return command.PrintValue(a.Program, h, err, func(h store.Head) string { return audit.FormatHead(h) + "\n" })
		}}
	databaseFlag(c, &file)
	return c
}

func databaseFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "database", "", "use the copy of the database in `FILE`")
}

// auditFlags holds the flags of steward audit verify.
type auditFlags struct {
	anchors          []string
	database, export string
}

func (a *program) auditVerify() *cobra.Command {
	var f auditFlags
	c := &cobra.Command{
		Use: "verify", Short: "Check that the log is intact",
		Long: "Check the whole log, or an export of it, and report the first entry that was altered.\n" +
			"A log that somebody rewrote consistently, with a new chain, is detected by the heads that are stored\n" +
			"elsewhere: those given with --anchor, and those of the setting audit.anchor_file.",
		Example: "  steward audit verify\n  steward audit verify --anchor 812:5f0c… --database /backup/steward.db\n  steward audit verify --export log.jsonl",
		RunE:    func(c *cobra.Command, _ []string) error { return a.verifyAudit(c.Context(), f) },
	}
	c.Flags().StringArrayVar(&f.anchors, "anchor", nil, "an earlier `HEAD` as printed by steward audit head, or a file with one per line")
	databaseFlag(c, &f.database)
	c.Flags().StringVar(&f.export, "export", "", "check the export in `FILE` (- is standard input); no database is needed")
	c.MarkFlagsMutuallyExclusive("database", "export")
	return c
}

func (a *program) verifyAudit(ctx context.Context, f auditFlags) error {
	anchors, err := a.anchors(f)
	if err != nil {
		return err
	}
	if f.export != "" {
		return a.verifyExport(f.export, anchors)
	}
	var v store.Verdict
	err = a.withAudit(ctx, f.database, func(l *audit.Log) (err error) {
		v, err = l.Verify(ctx, anchors...)
		return err
	})
	switch {
	case err != nil:
		return err
	case a.JSON:
		err = a.PrintJSON(v)
	default:
		err = a.printVerdict(v, len(anchors))
	}
	if err == nil && v.Flaw != nil {
		return command.ExitCode(command.ExitFailed)
	}
	return err
}

// anchors returns earlier heads: those of the flags, and those of the setting
// audit.anchor_file.
func (a *program) anchors(f auditFlags) (out []store.Head, err error) {
	for _, s := range f.anchors {
		h, err := audit.ParseHead(s)
		if err == nil {
			out = append(out, h)
			continue
		}
		if strings.Contains(s, ":") && !strings.ContainsAny(s, "/\\") {
			return nil, err
		}
		list, err := audit.ReadAnchors(a.Path(s))
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	set, err := a.Settings()
	if err != nil || set.Audit.AnchorFile == "" || f.export != "" {
		return out, err
	}
	list, err := audit.ReadAnchors(set.Audit.AnchorFile)
	if errors.Is(err, fs.ErrNotExist) {
		a.Note("%s does not exist yet: no heads are stored there", set.Audit.AnchorFile)
		return out, nil
	}
	return append(out, list...), err
}

func (a *program) printVerdict(v store.Verdict, anchors int) error {
	if f := v.Flaw; f != nil {
		return a.printFlaw(f)
	}
	var b strings.Builder
	switch {
	case v.Last == 0:
		b.WriteString("The log is empty.\n")
	default:
		fmt.Fprintf(&b, "The log is intact: %s", app.Counted(int(v.Last), "entry", "entries"))
		if v.Open > 0 {
			fmt.Fprintf(&b, ", the last %d not sealed yet", v.Open)
		}
		b.WriteString(".\n")
	}
	if v.Erased > 0 {
		fmt.Fprintf(&b, "%s erased for good; the hashes remain.\n", map[bool]string{true: "One body was", false: fmt.Sprintf("%d bodies were", v.Erased)}[v.Erased == 1])
	}
	if anchors > 0 {
		fmt.Fprintf(&b, "%s hold.\n", app.Counted(anchors, "head that was kept elsewhere does", "heads that were kept elsewhere"))
	}
	if v.Head.Seq > 0 {
		fmt.Fprintf(&b, "head  %s\n", audit.FormatHead(v.Head))
	}
	return a.Print(b.String())
}

func (a *program) printFlaw(f *store.Flaw) error {
	at := fmt.Sprintf("entry %d", f.Seq)
	if f.Through > f.Seq {
		at = fmt.Sprintf("entries %d to %d", f.Seq, f.Through)
	}
	if !f.URI.Zero() {
		at += ", " + f.URI.String()
	}
	_, err := fmt.Fprintf(a.Stdout, "ALTERED: %s\n  %s\n", at, command.PlainLine(f.What))
	a.Note("Keep a copy of the database as it is, and compare it with a backup (docs/operations/audit.md).")
	return err
}

func (a *program) verifyExport(file string, anchors []store.Head) error {
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(a.Path(file))
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
	case a.JSON:
		err = a.PrintJSON(c)
	case c.Flaw != nil:
		err = a.printFlaw(c.Flaw)
	default:
		_, err = fmt.Fprintf(a.Stdout, "The export is intact: %s, and the hashes of %d more.\nfrom  %s\nhead  %s\n",
			app.Counted(int(c.Entries), "entry", "entries"), c.Omitted, audit.FormatHead(c.After), audit.FormatHead(c.Head))
		if len(c.Beyond) > 0 {
			a.Note("The export does not cover the heads at %s.", strings.Trim(fmt.Sprint(c.Beyond), "[]"))
		}
	}
	if err == nil && c.Flaw != nil {
		return command.ExitCode(command.ExitFailed)
	}
	return err
}

func (a *program) auditExport() *cobra.Command {
	var q audit.Query
	var under, file, database string
	c := &cobra.Command{Use: "export", Short: "Write the log as JSON lines that can be verified",
		Long: "Write the log as JSON lines: who did what, when and at whose request, who approved it and by which\n" +
			"rule, and what the model was shown. The export includes the hashes of what is left out, so that\n" +
			"steward audit verify --export can check it without a database.",
		Example: "  steward audit export --since 7d > week.jsonl\n  steward audit export --user ada --bodies --output ada.jsonl",
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if under != "" {
				if q.Under, err = tree.Parse(a.User(), "", under); err != nil {
					return err
				}
			}
			return a.withAudit(c.Context(), database, func(l *audit.Log) error { return a.exportAudit(c.Context(), l, q, file) })
		}}
	command.SinceUntil(c, &q.Since, &q.Until, "entries")
	c.Flags().StringVar(&q.User, "user", "", "only what the user `NAME` did, and what is in that user's space")
	c.Flags().StringVar(&under, "under", "", "only changes at or below the place `URI`")
	c.Flags().BoolVar(&q.Bodies, "bodies", false, "include what was written, and the arguments of tool calls")
	c.Flags().StringVarP(&file, "output", "o", "", "write to `FILE`, readable only by you, instead of standard output")
	databaseFlag(c, &database)
	return c
}

func (a *program) exportAudit(ctx context.Context, l *audit.Log, q audit.Query, file string) (err error) {
	who := audit.Reader{User: a.User(), All: true}
	if file == "" {
		return l.Export(ctx, who, q, a.Stdout)
	}
	out, err := os.OpenFile(a.Path(file), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.New(fault.Invalid, "output_unwritable", "%s cannot be written: %w", file, err).WithHint("name another file")
	}
	return errors.Join(l.Export(ctx, who, q, out), out.Sync(), out.Close())
}

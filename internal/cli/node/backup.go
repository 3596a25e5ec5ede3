package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/settings"
	"steward/internal/store/backup"
)

// backupFlags are the flags of steward backup.
type backupFlags struct {
	output, to, passphrase string
	recipients             []string
	unchecked              bool
}

func (a *program) backupCommand() *cobra.Command {
	var f backupFlags
	c := &cobra.Command{
		Use: "backup [FOLDER]", Short: "Back up the data folder, also while Steward runs", GroupID: "keep",
		Args: cobra.MaximumNArgs(1),
		Long: "Make a backup of everything in the data folder that cannot be made again. A Steward that runs goes on.\n" +
			"A database in PostgreSQL is not in it: back that up afterwards, with pg_dump or a base backup.\n" +
			"The backup is a new folder in FOLDER, by default in that of the setting backup.folder. With --recipient\n" +
			"or --passphrase-file it is one encrypted file (age). With --output or --to-command it is a stream (tar).\n" +
			"It is complete or not there. Before it counts, it is restored into a temporary folder and checked.\n" +
			"docs/operations/backup.md tells more; steward restore puts a backup back.",
		Example: "  steward backup /mnt/backups\n" +
			"  steward backup /mnt/backups --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n" +
			"  steward backup --to-command 'restic backup --stdin --stdin-filename steward.tar'",
		RunE: func(c *cobra.Command, args []string) error { return a.backup(c.Context(), strings.Join(args, ""), &f) },
	}
	c.Flags().StringVarP(&f.output, "output", "o", "", "write the backup as a tar archive to `FILE`; - is standard output")
	c.Flags().StringVar(&f.to, "to-command", "", "write it to the standard input of `COMMAND`")
	c.Flags().StringArrayVar(&f.recipients, "recipient", nil, "encrypt it for the public `KEY` of age; may be repeated")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "encrypt it with the passphrase in `FILE`")
	c.Flags().BoolVar(&f.unchecked, "no-check", false, "do not restore it into a temporary folder to check it")
	c.MarkFlagsMutuallyExclusive("output", "to-command")
	c.MarkFlagsMutuallyExclusive("recipient", "passphrase-file")
	c.AddCommand(a.backupList(), a.backupVerify())
	return c
}

func (a *program) backup(ctx context.Context, folder string, f *backupFlags) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	streamed := f.output != "" || f.to != ""
	if streamed && folder != "" {
		return command.Usage("a backup goes either to a folder or to a stream")
	}
	if folder != "" {
		folder = a.Path(folder)
	}
	in := client.NewBackup{Folder: folder, Recipients: f.recipients}
	if s := a.Served(ctx, set); s != nil && !streamed && f.passphrase == "" && !f.unchecked {
		made, err := s.MakeBackup(ctx, in)
		if err = errors.Join(err, s.End()); err == nil && made.Path != "" {
			if _, gone := os.Lstat(made.Path); errors.Is(gone, fs.ErrNotExist) {
				a.Note("steward: the running Steward sees other files at %s than this command, for example a /tmp of its own: the backup is where it sees them", filepath.Dir(made.Path))
			}
		}
		return a.printBackup(made, err)
	}
	backups := a.Backups(set, a.Logger(set, a.Stderr))
	if !streamed && f.passphrase == "" && !f.unchecked {
		made, err := backups.Make(ctx, in)
		return a.printBackup(made, err)
	}
	to, err := a.recipients(set, f)
	if err != nil {
		return err
	}
	if folder = cmp.Or(folder, set.Backup.Folder); folder == "" || streamed {
		folder = backup.Own(set.Data)
	}
	o := backups.Options(folder, backup.Manual, to...)
	o.NoCheck = f.unchecked
	if !streamed {
		made, err := backup.Make(ctx, o)
		return a.printBackup(app.BackupView(made, len(to) > 0), err)
	}
	made, err := a.stream(ctx, o, f)
	if err != nil {
		return err
	}
	if f.output == "-" {
		a.Note("steward: %s", backupLine(app.BackupView(made, len(to) > 0)))
		return nil
	}
	return a.printBackup(app.BackupView(made, len(to) > 0), nil)
}

// recipients returns for whom a backup is encrypted.
func (a *program) recipients(set *settings.Loaded, f *backupFlags) ([]age.Recipient, error) {
	if f.passphrase != "" {
		text, err := a.passphrase(f.passphrase)
		if err != nil {
			return nil, err
		}
		r, err := backup.WithPassphrase(text)
		return []age.Recipient{r}, err
	}
	if len(f.recipients) == 0 {
		return backup.Recipients(set.Backup.Recipients)
	}
	return backup.Recipients(f.recipients)
}

// maxPassphrase bounds a passphrase, in bytes.
const maxPassphrase = 4096

// passphrase reads the first line of a file.
func (a *program) passphrase(file string) (string, error) {
	f, err := os.Open(a.Path(file))
	if err != nil {
		return "", fault.New(fault.Invalid, "passphrase_invalid", "the passphrase cannot be read: %w", err).WithHint("name a file whose first line is the passphrase")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPassphrase))
	first, _, _ := bytes.Cut(b, []byte("\n"))
	if text := strings.TrimRight(string(first), "\r"); err == nil && text != "" {
		return text, f.Close()
	}
	return "", errors.Join(fault.New(fault.Invalid, "passphrase_invalid", "%s has no passphrase", file).WithHint("write it on the first line of the file"), err, f.Close())
}

// stream writes a backup to a file, to standard output, or to a command.
func (a *program) stream(ctx context.Context, o backup.Options, f *backupFlags) (backup.Made, error) {
	switch {
	case f.to != "":
		return a.streamTo(ctx, o, f.to)
	case f.output == "-":
		out := app.FileOf(a.Stdout)
		if out != nil && app.IsTerminal(a.Stdout) {
			return backup.Made{}, command.Usage("a backup is not written to a terminal: send it to a file or another program")
		}
		return backup.Stream(ctx, o, a.Stdout)
	}
	path := a.Path(f.output)
	if err := unusable(path); err != nil {
		return backup.Made{}, err
	}
	out := &lateFile{path: path + ".partial"}
	made, err := backup.Stream(ctx, o, out)
	made.Path = path
	return made, out.end(path, err)
}

// unusable says why a file cannot be made.
func unusable(path string) error {
	var why string
	switch _, err := os.Lstat(path); {
	case err == nil:
		why = "it exists already"
	case !errors.Is(err, fs.ErrNotExist):
		why = err.Error()
	case !disk.Usable(filepath.Dir(path)):
		why = "its folder does not exist, or cannot be written"
	default:
		return nil
	}
	return fault.New(fault.Invalid, "output_unusable", "the backup cannot be written to %s: %s", path, why).WithHint("name a new file in a folder that exists")
}

// lateFile is a file that is made when something is written to it, and has its name once it is complete: under its own
// name, it would look complete before it is. What an interrupted backup has left there is replaced. By then this
// backup has the lock, so no other one is writing to it.
type lateFile struct {
	path string // while it is not complete
	f    *os.File
}

func (w *lateFile) Write(b []byte) (int, error) {
	if w.f == nil {
		err := os.Remove(w.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil {
			w.f, err = os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
		if err != nil {
			return 0, err
		}
	}
	return w.f.Write(b)
}

// end names the file, or removes it if writing it has failed.
func (w *lateFile) end(path string, err error) error {
	if w.f == nil {
		return err
	}
	if err == nil {
		err = w.f.Sync()
	}
	if err = errors.Join(err, w.f.Close()); err == nil {
		err = unusable(path) // it may have appeared meanwhile
	}
	if err == nil {
		err = os.Rename(w.path, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(w.path))
	}
	return disk.SyncFolder(filepath.Dir(path))
}

// streamTo writes a backup to the standard input of a command. If the backup fails, the command is ended before its
// input ends, so that it does not take a part for the whole.
func (a *program) streamTo(ctx context.Context, o backup.Options, line string) (backup.Made, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = a.Environ, a.Dir, a.Stderr, a.Stderr, 10*time.Second
	command.Together(cmd)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return backup.Made{}, fault.New(fault.Invalid, "backup_command_failed", "%q cannot be started: %w", line, err)
	}
	made, err := backup.Stream(ctx, o, in)
	if err != nil {
		cancel()
		ended := cmd.Wait()
		var exit *exec.ExitError
		if errors.As(ended, &exit) && exit.Exited() {
			return made, commandFailed(line, ended)
		}
		return made, err
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		return made, commandFailed(line, err)
	}
	return made, nil
}

func commandFailed(line string, err error) error {
	return fault.New(fault.Unavailable, "backup_command_failed", "%q did not take the backup: %w", line, err).WithHint("its own messages are above; run it by hand with a small file as its input")
}

func (a *program) printBackup(b client.Backup, err error) error {
	return command.PrintValue(a.Program, b, err, func(b client.Backup) string { return backupLine(b) + "\n" })
}

// backupLine says what a backup has, and how it is put back.
func backupLine(b client.Backup) string {
	where := cmp.Or(b.Path, "the stream")
	checked := "it was restored into a temporary folder, and is sound"
	if !b.Checked {
		checked = "it was not checked"
	}
	text := fmt.Sprintf("backed up to %s: %s, %s, the log up to entry %d; %s", where, app.Plural(b.Files, "file"), bytesOf(b.Bytes), b.Entries, checked)
	if b.Store != "" {
		text = fmt.Sprintf("backed up to %s: %s, %s; %s\nthe database is in PostgreSQL, at entry %d of its log, and is not in this backup: back it up now with pg_dump or a base backup\n"+
			"docs/operations/postgres.md tells how", where, app.Plural(b.Files, "file"), bytesOf(b.Bytes), checked, b.Entries)
	}
	if len(b.LeftOut) > 0 {
		text += "\nnot in the backup: " + command.PlainLine(app.Some(b.LeftOut))
	}
	if b.Path != "" {
		text += fmt.Sprintf("\nsteward restore %s puts it back", b.Path)
		if b.Encrypted {
			text += ", with --identity FILE or --passphrase-file FILE"
		}
	}
	return text
}

// bytesOf writes a number of bytes for people.
func bytesOf(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

func (a *program) backupList() *cobra.Command {
	return &cobra.Command{Use: "list [FOLDER]", Short: "List the backups, newest first", Args: cobra.MaximumNArgs(1),
		Long: "List the complete backups in FOLDER, by default in that of the setting backup.folder, and those in the\n" +
			"data folder.",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				set.Backup.Folder = a.Path(args[0])
			}
			list, err := a.Backups(set, slog.New(slog.DiscardHandler)).List(c.Context())
			where := backup.Own(set.Data)
			if set.Backup.Folder != "" {
				where = set.Backup.Folder + " or " + where
			}
			none := fmt.Sprintf("there are no backups in %s; steward backup FOLDER makes one", where)
			return command.PrintList(a.Program, list.Backups, err, none, func(list []client.Backup) string {
				rows := [][]string{{"MADE", "WHY", "SIZE", "BACKUP"}}
				for _, b := range list {
					why := cmp.Or(map[string]string{"job": "scheduled", "upgrade": "before an upgrade"}[b.Kind], "asked for")
					rows = append(rows, []string{b.Made.Local().Format(time.DateTime), why, bytesOf(b.Bytes), b.Path})
				}
				return command.Columns(rows, 0)
			})
		}}
}

// openFlags are the flags that open an encrypted backup.
type openFlags struct{ identity, passphrase string }

func (f *openFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.identity, "identity", "", "open the backup with the private key of age in `FILE`")
	c.Flags().StringVar(&f.passphrase, "passphrase-file", "", "open it with the passphrase in `FILE`")
}

// source opens a backup: a folder, a file, or standard input.
func (a *program) source(name string, f *openFlags) (backup.Source, func() error, error) {
	keys := func() ([]age.Identity, error) {
		text, file := "", ""
		if f.identity != "" {
			file = a.Path(f.identity)
		}
		if f.passphrase != "" {
			var err error
			if text, err = a.passphrase(f.passphrase); err != nil {
				return nil, err
			}
		}
		if text == "" && file == "" {
			return nil, fault.New(fault.Denied, "backup_encrypted", "the backup is encrypted").
				WithHint("name your key with --identity FILE, or the file of the passphrase with --passphrase-file FILE")
		}
		return backup.Identities(file, text)
	}
	if name == "-" {
		return backup.StreamSource("standard input", a.Stdin, keys), func() error { return nil }, nil
	}
	return backup.OpenSource(a.Path(name), keys)
}

func (a *program) backupVerify() *cobra.Command {
	var f openFlags
	c := &cobra.Command{Use: "verify BACKUP", Short: "Check that a backup can be restored",
		Long: "Restore a backup into a temporary folder, check each file, SQLite's integrity and the sealed log, and\n" +
			"remove the folder. BACKUP is a folder, a file, or - for standard input. The data folder is not touched.",
		Example: "  steward backup verify /mnt/backups/steward-20261129T181500Z\n  restic dump latest steward.tar | steward backup verify -",
		RunE: func(c *cobra.Command, args []string) error {
			s, done, err := a.source(args[0], &f)
			if err != nil {
				return err
			}
			temp, err := os.MkdirTemp("", "steward-verify-")
			if err != nil {
				return errors.Join(err, done())
			}
			err = backup.Check(c.Context(), backup.CheckOptions{Source: s, Temp: temp})
			err = errors.Join(err, done(), os.RemoveAll(temp))
			return a.PrintDone(map[string]bool{"ok": err == nil}, err, "%s is complete and sound", args[0])
		}}
	f.add(c)
	return c
}

func (a *program) restoreCommand() *cobra.Command {
	var f openFlags
	var replace, unchecked bool
	c := &cobra.Command{Use: "restore BACKUP", Short: "Put a backup back into the data folder", GroupID: "keep",
		Long: "Restore the data folder from a backup: a folder, a file, or - for standard input. Stop Steward first.\n" +
			"Everything is unpacked beside the data and checked; only then does the data change, all of it or nothing.\n" +
			"A folder with data in it is refused. With --replace that data is moved to before-restore-TIME in the data\n" +
			"folder, and never removed. A database in PostgreSQL is restored by itself first; that it is not older than\n" +
			"the backup is checked. The backup's settings are put beside the data, and do not take effect.",
		Example: "  steward restore /mnt/backups/steward-20261129T181500Z --data /srv/steward\n" +
			"  steward restore /mnt/backups/steward-20261129T181500Z.tar.age --identity key.txt --replace\n" +
			"  restic dump latest steward.tar | steward restore -",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			s, done, err := a.source(args[0], &f)
			if err != nil {
				return err
			}
			o := backup.RestoreOptions{Data: set.Data, Source: s, Replace: replace}
			if !unchecked {
				o.Fits = a.Backups(set, a.Logger(set, a.Stderr)).Fits
			}
			r, err := backup.Restore(c.Context(), o)
			return command.PrintValue(a.Program, r, errors.Join(err, done()), func(r backup.Restored) string { return restoredText(set.Data, &r) })
		}}
	f.add(c)
	c.Flags().BoolVar(&replace, "replace", false, "if there is data in the folder, move it aside")
	c.Flags().BoolVar(&unchecked, "no-store-check", false, "do not compare the backup with a database in PostgreSQL")
	return c
}

// restoredText says what a restore has done, and where to go on.
func restoredText(data string, r *backup.Restored) string {
	m := &r.Manifest
	text := fmt.Sprintf("restored %s, %s, into %s: the state of %s, the log up to entry %d\n",
		app.Plural(m.Count(), "file"), bytesOf(m.Bytes), data, m.Made.Local().Format(time.DateTime), m.Log.Entries)
	if m.Log.Store != "" {
		text = fmt.Sprintf("restored %s, %s, into %s: the state of %s; the database in PostgreSQL stays as it is\n",
			app.Plural(m.Count(), "file"), bytesOf(m.Bytes), data, m.Made.Local().Format(time.DateTime))
	}
	if r.Aside != "" {
		text += fmt.Sprintf("what was there before is in %s; remove it when you do not need it any more\n", r.Aside)
	}
	if r.Settings != "" {
		text += fmt.Sprintf("the settings of then are in %s; they do not take effect by themselves\n", r.Settings)
	}
	return text + "steward doctor checks it; steward serve goes on with it, and rebuilds the indexes of searches\n"
}

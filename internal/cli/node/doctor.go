package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/internal/app"
	"steward/internal/cli/access"
	"steward/internal/cli/agents"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/llm"
	"steward/internal/sandbox"
	"steward/internal/server/auth"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/backup"
	"steward/internal/store/sqlite"
	domainlocal "steward/internal/tools/local"
)

func (a *program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check for problems and suggest fixes", GroupID: "look",
		Long: "Check settings, data folder, database (SQLite's integrity check and the audit's), the indexes of searches\n" +
			"(that they hold what the database holds), disk, policies, port, models, clock, built-in tools and terminal.\n" +
			"Nothing is changed. The exit code is 1 if a check fails.",
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

// The outcomes of a check.
const (
	good = "ok"
	warn = "warn" // Steward runs, but not as well as it could
	bad  = "fail"
	off  = "off" // not set up, which is fine
)

// check is one finding of the doctor.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Say    string `json:"message"`
	Code   string `json:"code,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func fine(name, format string, args ...any) check {
	return check{Name: name, Status: good, Say: fmt.Sprintf(format, args...)}
}

// problem returns a finding that needs attention.
func problem(name, status, say, remedy string) check {
	return check{Name: name, Status: status, Say: say, Remedy: remedy}
}

func failed(name, status string, err error) check {
	e := fault.Of(err)
	return check{Name: name, Status: status, Say: app.WithoutRemedy(e), Code: e.Code, Remedy: e.Remedy}
}

func (c check) with(remedy string) check {
	if c.Remedy == "" {
		c.Remedy = remedy
	}
	return c
}

func (a *program) doctor(ctx context.Context) error {
	var checks []check
	set, err := a.Settings()
	if err != nil {
		checks = append(checks, failed("settings", bad, err).with("fix the settings; docs/reference/settings.md describes them"))
	} else {
		checks = append(checks, a.checkSettings(set))
		running, serving := app.ReadNotice(set.Data)
		if serving == nil && !answers(ctx, running.URL) {
			serving = errors.New("it does not answer")
		}
		data, newest := a.checkDatabase(ctx, set)
		checks = append(checks, checkFolder(set.Data), checkToken(set), data)
		checks = append(checks, a.checkIndexes(ctx, set)...)
		checks = append(checks, checkBackups(set), checkDisk(set.Data), a.checkPolicies(),
			checkPort(set, running, serving == nil))
		checks = append(checks, a.checkCluster(ctx, set)...)
		checks = append(checks, checkDoors(set, serving == nil)...)
		checks = append(checks, checkGranted(set)...)
		checks = append(checks, a.checkModels(ctx, set)...)
		checks = append(checks, checkClock(set, newest))
		checks = append(checks, a.checkTools(ctx, set)...)
		checks = append(checks, a.checkMCP(set)...)
		checks = append(checks, a.checkChannels(ctx, set, warn)...)
	}
	checks = append(checks, checkSandbox(), a.checkTerminal())
	return a.printChecks(checks)
}

// groupTimeout is how long a group of built-in tools may take to say whether it works.
const groupTimeout = 20 * time.Second

// checkTools asks all groups of built-in tools at once whether they can work. A group that is not
// set up is fine.
func (a *program) checkTools(ctx context.Context, set *settings.Loaded) []check {
	groups := (&app.Local{Log: slog.New(slog.DiscardHandler), Resolver: a.Resolver(set)}).BuiltIns(set)
	checks := make([]check, len(groups))
	var asking sync.WaitGroup
	for i, g := range groups {
		asking.Go(func() { checks[i] = checkGroup(ctx, g) })
	}
	asking.Wait()
	return checks
}

// checkGroup asks one group, and does not wait for longer than the limit, whatever the group does.
func checkGroup(ctx context.Context, g app.BuiltIn) check {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	if g.Health == nil {
		return fine(g.Name, "ready; no settings are needed")
	}
	health := make(chan domainlocal.Health, 1)
	go func() { health <- g.Health(ctx) }()
	select {
	case h := <-health:
		switch h.State {
		case domainlocal.Ready:
			return fine(g.Name, "%s", h.Say)
		case domainlocal.Off:
			return check{Name: g.Name, Status: off, Say: h.Say, Remedy: h.Remedy}
		}
		return problem(g.Name, warn, h.Say, h.Remedy)
	case <-ctx.Done():
		return problem(g.Name, warn, fmt.Sprintf("it did not answer within %s", groupTimeout), "check whether its server can be reached")
	}
}

func (a *program) printChecks(checks []check) error {
	worst := good
	for _, c := range checks {
		if c.Status == bad || c.Status == warn && worst == good {
			worst = c.Status
		}
	}
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"ok": worst != bad, "checks": checks}); err != nil {
			return err
		}
	} else {
		wide := 10
		for _, c := range checks {
			wide = max(wide, len(c.Name))
		}
		below := "\n" + strings.Repeat(" ", wide+7)
		for _, c := range checks {
			fmt.Fprintf(a.Stdout, "%-4s  %-*s %s\n", c.Status, wide, c.Name, strings.ReplaceAll(c.Say, "\n", below))
			if c.Remedy != "" && c.Status != good {
				fmt.Fprintf(a.Stdout, "%s→ %s\n", below[1:], strings.ReplaceAll(c.Remedy, "\n", below+"  "))
			}
		}
		fmt.Fprintln(a.Stdout, map[string]string{good: "all is well", warn: "Steward can run; some things could be better", bad: "something is wrong: see the failed checks above"}[worst])
	}
	if worst == bad {
		return command.ExitCode(command.ExitFailed)
	}
	return nil
}

// checkSettings warns of keys in files that others can read.
func (a *program) checkSettings(set *settings.Loaded) check {
	for _, file := range set.Files {
		info, err := os.Stat(file)
		if err == nil && info.Mode().Perm()&0o077 != 0 && holdsKey(set, file) {
			return problem("settings", warn, file+" holds a key and can be read by others", "chmod 600 "+file)
		}
	}
	if len(set.Notices) > 0 {
		return problem("settings", warn, strings.Join(set.Notices, "\n"), "fix or remove what is not used")
	}
	if len(set.Files) == 0 {
		return fine("settings", "no file; defaults, environment and flags apply")
	}
	return fine("settings", "%s", strings.Join(set.Files, ", "))
}

func holdsKey(set *settings.Loaded, file string) bool {
	for name, p := range set.Providers {
		from := set.SourceOf("providers." + name + ".key")
		if p.Key != "" && from.Kind != settings.FromEnv && strings.HasPrefix(from.Where, file+":") {
			return true
		}
	}
	return false
}

func checkFolder(data string) check {
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fine("data", "%s is not there yet; it is created at the first start", data)
	case err != nil:
		return failed("data", bad, err).with("make it readable, or name another folder with --data")
	case !info.IsDir():
		return problem("data", bad, data+" is not a folder", "name another with --data")
	case !disk.Usable(data):
		return problem("data", bad, data+" cannot be written", "make it writable, or name another folder with --data")
	}
	if _, err := os.Stat(app.Database(data)); err != nil {
		return fine("data", "%s", data)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return problem("data", warn, fmt.Sprintf("%s is open to others (%v)", data, info.Mode().Perm()), "chmod 700 "+data)
	}
	return fine("data", "%s", data)
}

// checkGranted reports which folders that the files tools may use hold Steward's own data or settings, or lie in
// them. The tools leave that out. Without such a folder it reports nothing.
func checkGranted(set *settings.Loaded) []check {
	private := domainlocal.NewPrivate(set.Private())
	folders := slices.Clone(set.Folders)
	if set.Workspace != "" {
		folders = append(folders, settings.Folder{Name: app.WorkspaceName, Path: set.Workspace})
	}
	var say []string
	for _, f := range folders {
		info, err := os.Stat(f.Path)
		switch {
		case err != nil: // it is made when it is used, or the tools say that it is missing
		case private.Has(f.Path):
			say = append(say, fmt.Sprintf("%s (%s) is in Steward's own data or settings: no tool uses it", f.Name, f.Path))
		case private.Above(info):
			say = append(say, fmt.Sprintf("%s (%s) holds Steward's own data or settings: tools see everything else in it", f.Name, f.Path))
		}
	}
	if len(say) == 0 {
		return nil
	}
	return []check{problem("folders", warn, strings.Join(say, "\n"), "name a folder that holds only what tools are to use")}
}

// checkDatabase also returns the time of the newest entry, if there is one.
func (a *program) checkDatabase(ctx context.Context, set *settings.Loaded) (c check, newest time.Time) {
	st, err := a.ReadStore(ctx, set)
	if fault.HasCode(err, "database_missing") {
		return fine("database", "none yet; it is created at the first start"), newest
	}
	if err != nil {
		return failed("database", bad, err), newest
	}
	defer st.Close()
	var damage []string
	if file, ok := st.(*sqlite.Store); ok {
		damage, err = file.Damage(ctx)
	}
	if err == nil && len(damage) > 0 {
		err = fault.New(fault.Internal, "database_damaged", "the file is damaged:\n%s", strings.Join(damage, "\n"))
	}
	if err != nil {
		return failed("database", bad, err).with("keep a copy of the data folder as it is, and restore the database from a backup"), newest
	}
	verdict, err := st.Verify(ctx)
	if err == nil && verdict.Flaw != nil {
		err = fault.New(fault.Internal, "log_tampered", "entry %d of the log was altered", verdict.Flaw.Seq)
	}
	if err != nil {
		return failed("database", bad, err).with("steward audit verify shows more"), newest
	}
	log, err := st.Log(ctx, store.ForNode("system"), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil {
		return failed("database", bad, err), newest
	}
	if len(log.Entries) == 0 {
		return fine("database", "sound, empty"), newest
	}
	newest = log.Entries[0].At
	return fine("database", "sound, and the log is intact: %d entries, the last one of %s", log.Entries[0].Seq, newest.Local().Format(time.DateTime)), newest
}

// checkIndexes compares the indexes of the search with the database. There is no check if there are none.
func (a *program) checkIndexes(ctx context.Context, set *settings.Loaded) []check {
	st, err := a.ReadStore(ctx, set)
	if err != nil {
		return nil // checkDatabase has said so
	}
	defer st.Close()
	var good []string
	for _, x := range a.VerifyIndexes(ctx, st, set) {
		name := filepath.Base(x.Path)
		switch {
		case x.Err != nil:
			return []check{failed("indexes", warn, x.Err)}
		case x.Behind > 0:
			good = append(good, fmt.Sprintf("%s is %d changes behind and catches up", name, x.Behind))
		case !x.OK():
			return []check{problem("indexes", warn, name+" does not hold what the database holds", "stop Steward and delete "+x.Path+"; it is then rebuilt")}
		default:
			good = append(good, fmt.Sprintf("%s has all %d %s", name, x.Texts, x.Of))
		}
	}
	if len(good) == 0 {
		return nil
	}
	return []check{fine("indexes", "%s", strings.Join(good, ", "))}
}

// checkBackups finds out whether backups are made, and whether the last one is good.
func checkBackups(set *settings.Loaded) check {
	const restore = "steward backup list shows what there is"
	last, ran := app.LastBackup(set)
	list, err := backup.List(set.Backup.Folder)
	if err == nil {
		_, err = backup.Recipients(set.Backup.Recipients)
	}
	switch late := 2*set.Backup.Every + time.Hour; {
	case set.Backup.Folder == "":
		return check{Name: "backup", Status: off, Say: "no backups are made by themselves", Remedy: "set backup.folder to a folder on another disk, or run steward backup FOLDER"}
	case ran && last.Code != "":
		return check{Name: "backup", Status: bad, Say: fmt.Sprintf("the last one, of %s, failed: %s", last.At.Local().Format(time.DateTime), last.Message), Code: last.Code, Remedy: "steward jobs run backup tries again; " + restore}
	case err != nil:
		return failed("backup", bad, err)
	case len(list) == 0:
		return problem("backup", warn, "there is none yet in "+set.Backup.Folder, "it is made while Steward runs; steward jobs run backup makes one now")
	case time.Since(list[0].Made) > late:
		return problem("backup", warn, fmt.Sprintf("the newest one is of %s", list[0].Made.Local().Format(time.DateTime)), "it is made while Steward runs; steward jobs run backup makes one now")
	}
	return fine("backup", "%s in %s, the newest one of %s", app.Plural(len(list), "backup"), set.Backup.Folder, list[0].Made.Local().Format(time.DateTime))
}

// Thresholds for free disk space, in bytes.
const (
	lowSpace       = 1 << 30
	tooLittleSpace = 100 << 20
)

func checkDisk(data string) check {
	dir := data
	free, err := disk.Free(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		free, err = disk.Free(dir)
	}
	if err != nil {
		return failed("disk", warn, fmt.Errorf("the free disk space cannot be read: %w", err)).with("check that the data folder can be reached")
	}
	say := fmt.Sprintf("%.1f GB free", float64(free)/1e9)
	switch {
	case free < tooLittleSpace:
		return problem("disk", bad, say, "free some space, or move the data folder to another disk with --data")
	case free < lowSpace:
		return problem("disk", warn, say, "free some space soon")
	}
	return fine("disk", "%s", say)
}

// checkPolicies checks whether the policies can take effect. With broken ones Steward does
// not start.
func (a *program) checkPolicies() check {
	dir, p, err := access.PolicyFiles(a.Program)
	if err != nil {
		return failed("policies", bad, err).with("fix the file, or move it out of " + dir)
	}
	return fine("policies", "version %s, with %s of your own", p.Version, app.Plural(access.OwnPolicies(p), "file"))
}

// checkSandbox checks whether programs can be confined on this machine.
func checkSandbox() check {
	if err := sandbox.Available(); err != nil {
		return failed("sandbox", warn, err)
	}
	return fine("sandbox", "programs of agents can be confined")
}

// answers reports whether a Steward answers at a URL.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	return errors.Join(err, res.Body.Close()) == nil && res.StatusCode == http.StatusOK
}

func checkPort(set *settings.Loaded, running app.Notice, serving bool) check {
	if serving {
		return fine("port", "Steward serves at %s (process %d)", running.URL, running.PID)
	}
	ln, err := net.Listen("tcp", set.Listen)
	if err != nil {
		return failed("port", bad, app.CannotListen(set.Listen, err))
	}
	if err := ln.Close(); err != nil {
		return failed("port", bad, err)
	}
	return fine("port", "%s is free", set.Listen)
}

// checkToken finds out whether the token of the machine's own user is usable.
func checkToken(set *settings.Loaded) check {
	switch _, err := auth.ReadToken(set.Data); {
	case fault.HasCode(err, "token_missing"):
		return fine("token", "it is created at the first start")
	case err != nil:
		return failed("token", bad, err)
	}
	return fine("token", "%s; only you can read it", auth.TokenFile(set.Data))
}

// checkModels asks every provider for its models, which also tests its key.
func (a *program) checkModels(ctx context.Context, set *settings.Loaded) []check {
	s, err := a.Supply(ctx, set, nil, nil)
	if err != nil {
		return []check{failed("models", bad, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out := make([]check, len(s.Sources))
	var asking sync.WaitGroup
	for i, src := range s.Sources {
		asking.Go(func() {
			infos, err := src.Models(ctx)
			if err != nil {
				out[i] = failed(src.Name(), bad, err)
				return
			}
			out[i] = fine(src.Name(), "%s; %d models", src.How, len(infos))
		})
	}
	asking.Wait()
	def := fine("models", "default is %s", strings.Join(s.Aliases["default"].Models, ", then "))
	if s.OfflineOnly() {
		local := app.Starter()
		def = problem("models", warn, fmt.Sprintf("no language model was found, not even %s on this machine: the offline provider answers, by rules", local.Title),
			fmt.Sprintf("set %s, or get %s from %s and run: %s %s", app.AnyOf(slices.Values(app.Vendors()), app.KeyEnv), local.Title, local.Starter.Download, local.Starter.Pull,
				app.LargestFitting(local.Starter.Models, app.TotalMemory("/proc/meminfo")).Name))
	}
	provider, _, _ := strings.Cut(s.Aliases[llm.DefaultAlias].Models[0], "/")
	if !slices.ContainsFunc(s.Sources, func(src app.Source) bool { return src.Name() == provider }) {
		def = problem("models", warn, def.Say+", but "+provider+" is not available", cmp.Or(app.Missing(set, s.Sources)[provider], "steward setup chooses another"))
	}
	return append([]check{def}, out...)
}

// checkClock compares the clock with the newest time in the database and with that of the
// build.
func checkClock(set *settings.Loaded, newest time.Time) check {
	now := time.Now()
	known, from := built(), "this program was built"
	if newest.After(known) {
		known, from = newest, "the newest entry of the database was made"
	}
	if now.Before(known.Add(-time.Minute)) {
		return problem("clock", bad, fmt.Sprintf("it is %s, but %s at %s", now.Format(time.DateTime), from, known.Format(time.DateTime)), "set the clock")
	}
	zone := set.Profile.TimeZone
	if zone == "" {
		zone, _ = now.Zone()
	}
	return fine("clock", "%s, time zone %s", now.Format(time.DateTime), zone)
}

func built() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					return t
				}
			}
		}
	}
	return time.Time{}
}

func (a *program) checkTerminal() check {
	if !app.IsTerminal(a.Stdin) || !app.IsTerminal(a.Stdout) {
		return fine("terminal", "not a terminal: chat would read lines")
	}
	w, h, err := term.GetSize(int(app.FileOf(a.Stdout).Fd()))
	if err != nil {
		return failed("terminal", warn, err).with("use another terminal")
	}
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale = a.Getenv(name); locale != "" {
			break
		}
	}
	say := fmt.Sprintf("%s, %d by %d", command.OrDash(a.Getenv("TERM")), w, h)
	utf8 := strings.Contains(strings.ToUpper(strings.ReplaceAll(locale, "-", "")), "UTF8")
	switch {
	case a.Getenv("TERM") == "" || a.Getenv("TERM") == "dumb":
		return problem("terminal", warn, say, "set TERM to the type of the terminal, for example xterm-256color")
	case locale != "" && !utf8:
		return problem("terminal", warn, say+", and the locale "+locale+" is not UTF-8", "set LANG to a UTF-8 locale, for example C.UTF-8")
	case w < 40 || h < 10:
		return problem("terminal", warn, say, "make it at least 40 by 10")
	}
	return fine("terminal", "%s", say)
}

// checkDoors examines the servers without a credential that the settings turn on. Nobody connects to them: this
// program may be none of their peers.
func checkDoors(set *settings.Loaded, serving bool) (all []check) {
	for _, d := range app.Doors(set) {
		peers, err := d.Peers()
		if err == nil && !serving {
			err = d.Free()
		}
		if err != nil {
			all = append(all, failed(d.Title, bad, err))
			continue
		}
		all = append(all, fine(d.Title, "at %s, for %v, without a credential", d.Listen, peers))
	}
	return all
}

// checkMCP reports which servers a person has to sign in at.
func (a *program) checkMCP(set *settings.Loaded) []check {
	all := agents.SignIns(a.Program, set)
	var checks []check
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch lacks, connected := all[name].Lacks(); {
		case lacks != "":
			checks = append(checks, problem("mcp", warn, fmt.Sprintf("%s is not connected: %s", name, lacks), all[name].Connect))
		case connected:
			checks = append(checks, fine("mcp", "%s is connected", name))
		}
	}
	return checks
}

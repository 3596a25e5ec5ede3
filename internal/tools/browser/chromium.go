package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"sync"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/sandbox"
)

// Limits of one browser.
const (
	maxPages      = 10
	startTime     = 20 * time.Second
	loadTime      = 15 * time.Second // for a page to load; it is read as far as it is there
	clickLoadTime = time.Second      // for a page to begin to load after a click
	memory        = 2 << 30
	cpuTime       = 30 * time.Minute
)

// Find returns the path of Chromium: the given one, or one of the usual programs. The programs
// themselves stand before the scripts that distributions put in front of them, because these read
// files that the sandbox does not show. Error code: browser_missing.
func Find(path string) (string, error) {
	names := []string{path}
	if path == "" {
		names = []string{"/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/opt/google/chrome/chrome", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}
	}
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", fault.New(fault.Unsupported, "browser_missing", "%s is not installed", cmp.Or(path, "Chromium")).
		WithHint("install Chromium (on Debian: apt install chromium), or set browser.path to where it is")
}

// program is run by a shell because Chromium takes its commands on the file descriptors 3 and 4.
const program = `exec "$0" "--proxy-server=$HTTP_PROXY" "$@" 3<&0 4>&1 </dev/null >&2`

// flags returns Chromium's arguments. It runs without its own sandbox, which needs rights that
// nothing has inside of Steward's. All connections go through the proxy, also those to loopback;
// WebRTC and QUIC, which would go beside it, are off, and the network namespace has no way out
// anyway. The profile lies in the temporary folder that ends with the program.
func flags() []string {
	return []string{"--headless", "--no-sandbox", "--remote-debugging-pipe", "--user-data-dir=/tmp/profile",
		"--proxy-bypass-list=<-loopback>", "--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
		"--disable-breakpad", "--disable-domain-reliability", "--disable-client-side-phishing-detection", "--no-pings", "--no-first-run",
		"--no-default-browser-check", "--disable-gpu", "--mute-audio", "--deny-permission-prompts", "--password-store=basic",
		"--disable-features=Translate,MediaRouter,OptimizationHints", "--window-size=1280,900", "about:blank"}
}

// chromium is a running browser with the pages of one conversation.
type chromium struct {
	conn
	rule egress.Rule
	proc *sandbox.Process
	turn chan struct{} // a semaphore with one slot: one call at a time
	idle *time.Timer   // closes the browser when it is not used
	work sync.WaitGroup
	why  error // after done: why it has ended

	filled bool // something was filled in, so pages may show what is the user's own; guarded by turn

	state   sync.Mutex
	pages   []*page       // the last one is shown
	changed chan struct{} // closed and replaced with each event
}

// page is a tab.
type page struct {
	target, session string
	loading         bool
}

// start starts a browser. It is killed when life ends; ctx bounds the start.
func start(ctx, life context.Context, o Options) (*chromium, error) {
	proc, err := sandbox.Start(life, sandbox.Command{Path: "sh", Args: append([]string{"-c", program, o.Path}, flags()...), Name: "browser",
		Log: o.Log, Network: o.Network,
		Limits: sandbox.Limits{Memory: memory, CPU: cpuTime, Processes: 1000, Files: 4096, FileSize: 512 << 20, Output: 1 << 40}}) // messages have no lines
	if err != nil {
		return nil, err
	}
	b := &chromium{rule: o.Network, proc: proc, turn: make(chan struct{}, 1), changed: make(chan struct{}),
		conn: conn{out: sandbox.NewSender(proc.Stdin), done: make(chan struct{}), waiting: map[int]chan frame{}}}
	b.work.Go(func() {
		err := b.read(proc.Stdout, b.event)
		proc.Kill()
		b.why = cmp.Or(err, proc.Wait(), errGone)
		close(b.done)
	})
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = b.call(ctx, "", "Browser.setDownloadBehavior", m{"behavior": "deny"}, nil)
	if err == nil {
		err = b.call(ctx, "", "Target.setAutoAttach", m{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
			"filter": []m{{"type": "page"}}}, nil)
	}
	if err == nil && !b.await(ctx, startTime, func() bool { return len(b.pages) > 0 }) {
		err = errors.New("it opened no page")
	}
	if err != nil {
		if b.ended() {
			err = b.why
		}
		b.close()
		return nil, fault.New(fault.Unavailable, "browser_failed", "the browser could not be started: %w%s", err, proc.StderrSuffix(nil)).
			WithHint("check that %s --headless runs on this machine", o.Path)
	}
	return b, nil
}

// close ends the browser. When it returns, nothing of it is left.
func (b *chromium) close() {
	b.proc.Kill()
	b.work.Wait()
}

// ended reports whether the browser has ended.
func (b *chromium) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// event keeps account of the pages. Replies to what it sends are not awaited.
func (b *chromium) event(msg frame) {
	var e struct {
		SessionID  string
		FrameID    string
		TargetInfo struct{ TargetID string }

		WaitingForDebugger bool
	}
	if err := json.Unmarshal(msg.Params, &e); err != nil {
		return // an event of another shape is not one of those below
	}
	b.state.Lock()
	defer b.state.Unlock()
	switch msg.Method {
	case "Target.attachedToTarget":
		if len(b.pages) == maxPages {
			b.post("", "Target.closeTarget", m{"targetId": e.TargetInfo.TargetID})
			break
		}
		// A page that another one opens waits until its events are enabled, so that none is missed.
		b.pages = append(b.pages, &page{target: e.TargetInfo.TargetID, session: e.SessionID, loading: e.WaitingForDebugger})
		b.post(e.SessionID, "Page.enable", nil, "Runtime.runIfWaitingForDebugger")
	case "Target.detachedFromTarget":
		b.pages = slices.DeleteFunc(b.pages, func(p *page) bool { return p.session == e.SessionID })
	case "Page.frameStartedLoading", "Page.frameStoppedLoading":
		for _, p := range b.pages { // the id of a page's main frame is that of its target
			if p.target == e.FrameID {
				p.loading = msg.Method == "Page.frameStartedLoading"
			}
		}
	case "Page.javascriptDialogOpening": // it would block the page
		b.post(msg.Session, "Page.handleJavaScriptDialog", m{"accept": false})
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// post sends a request, and then others without parameters, without waiting for the replies.
func (b *chromium) post(session, method string, params m, then ...string) {
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		_ = b.call(ctx, session, method, params, nil) // the page may be gone already
		for _, method := range then {
			_ = b.call(ctx, session, method, nil, nil)
		}
	})
}

// await waits until a condition over the pages holds, and reports whether it does.
func (b *chromium) await(ctx context.Context, most time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		b.state.Lock()
		ok, changed := holds(), b.changed
		b.state.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-b.done:
			return false
		}
	}
}

// shown returns the page that is shown.
func (b *chromium) shown() (page, error) {
	b.state.Lock()
	defer b.state.Unlock()
	if len(b.pages) == 0 {
		return page{}, fault.New(fault.Conflict, "browser_empty", "the page has closed itself").WithHint("open another one")
	}
	return *b.pages[len(b.pages)-1], nil
}

// waitSettled waits until the page that is shown has loaded, or has had time for it.
func (b *chromium) waitSettled(ctx context.Context) {
	b.await(ctx, loadTime, func() bool { return len(b.pages) == 0 || !b.pages[len(b.pages)-1].loading })
}

// waitLoaded waits until a page has begun to load after something was done to it, if it does, and
// then until it has loaded.
func (b *chromium) waitLoaded(ctx context.Context, before page) {
	b.await(ctx, clickLoadTime, func() bool {
		n := len(b.pages)
		return n == 0 || b.pages[n-1].loading || b.pages[n-1].target != before.target
	})
	b.waitSettled(ctx)
}

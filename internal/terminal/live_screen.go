package terminal

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// liveScreen is the model of the program. Its methods run in the program's own
// goroutine, and its commands in others, which share only watchers.
type liveScreen struct {
	ctx   context.Context
	opt   Options
	turn  turn
	input textarea.Model
	past  *history
	now   func() time.Time
	tick  func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick

	width, height int
	profile       colorprofile.Profile
	dark          bool

	conv  string // id of the conversation; empty: it starts with the next message
	named string // title of the conversation
	model string // chosen by the person
	agent string // likewise

	continues string // the agent of the open conversation
	agents    []string
	listed    []client.Conversation // in the order of the last /list
	facts     []client.FactNews     // in the order of the last /memory
	models    []string
	sending   string            // the message that is being sent, with the marks of its pastes
	outbox    []string          // the messages that are sent after it
	pastes    map[string]string // pasted texts by the label that the input has in their place
	editing   *message.Message  // the message that the input replaces

	reminders chan remindedMsg

	frames   chan watched // of the current watch
	watch    int          // counts watches, to ignore frames of earlier ones
	unwatch  func()
	cursor   string
	watchers sync.WaitGroup

	picking  *picker // in place of the input; nil: none
	reply    reply   // to a call's question
	pend     pending // questions about agents and sources
	ready    bool    // the first frame has been drawn; see drawn
	printing bool
	spinning bool
	spin     int
	typed    time.Time // when the last key was pressed
	ctrlC    time.Time // when Ctrl-C was last pressed
	leaving  bool
}

// The chat's own messages.
type (
	sent struct {
		client.Accepted
		text    string
		editing *message.Message
		err     error
	}
	watched struct {
		watch  int
		frames []client.Frame
		err    error
	}
	printed struct{}
	drawn   struct{}
	ticked  struct{}
	rewatch struct{ watch int }

	// continuation continues in the program's own goroutine.
	continuation func() tea.Cmd
)

// elsewhere calls do outside of the program's own goroutine, with the open
// conversation. Then it shows the error, or else calls done within that
// goroutine.
func elsewhere[T any](m *liveScreen, do func(conv string) (T, error), done func(T) tea.Cmd) tea.Cmd {
	conv := m.conv
	return func() tea.Msg {
		v, err := do(conv)
		return continuation(func() tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			return done(v)
		})
	}
}

// listTimeout is how long the lists of models and agents may take.
const listTimeout = 10 * time.Second

// quiet is how long the keyboard must have been idle, and a question on the screen,
// before a key answers it, so that nobody approves by accident while typing.
const quiet = 500 * time.Millisecond

// firstFrame is more than the time that drawing the first frame takes. Until then
// the program assumes that it fills the whole screen, and would print above in the
// wrong place.
const firstFrame = 100 * time.Millisecond

func newChat(ctx context.Context, o Options) (*liveScreen, error) {
	past, err := openHistory(o.History)
	if err != nil {
		return nil, err
	}
	m := &liveScreen{ctx: ctx, opt: o, past: past, now: time.Now, tick: tea.Tick, width: 80, height: 24, dark: true,
		profile: colorprofile.ANSI, model: o.Model, agent: o.Agent, unwatch: func() {}}
	m.turn.now, m.turn.cost, m.turn.window = func() time.Time { return m.now() }, o.Cost, o.Window
	in := textarea.New()
	in.ShowLineNumbers = false
	in.SetVirtualCursor(false)
	in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxContentHeight = true, 1, 8, 10000
	in.CharLimit = 0
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	in.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "› "
		}
		return "  "
	})
	in.Placeholder = placeholder
	m.input = in
	m.restyle()
	return m, nil
}

// restyle adapts to the terminal's size, colours and background.
func (m *liveScreen) restyle() {
	colour := m.profile >= colorprofile.ANSI
	m.turn.style = style{}
	if colour {
		m.turn.style = newStyle()
	}
	styles := textarea.DefaultStyles(m.dark)
	for _, s := range []*textarea.StyleState{&styles.Focused, &styles.Blurred} {
		s.CursorLine = s.Text
		s.Prompt = m.turn.you
		s.Placeholder = m.turn.dim
	}
	m.input.SetStyles(styles)
	m.input.MaxHeight = max(1, min(8, m.part()))
	m.input.SetWidth(max(m.width-1, 8))
	m.turn.paint.set(m.width, m.dark, colour)
}

// Init implements tea.Model.
func (m *liveScreen) Init() tea.Cmd {
	return tea.Batch(m.input.Focus(), tea.RequestBackgroundColor)
}

// Update implements tea.Model.
func (m *liveScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	m.continueQuestions()
	return m, tea.Batch(cmd, m.flush(), m.animate())
}

func (m *liveScreen) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 10), max(msg.Height, 4)
		m.restyle()
		if !m.ready {
			if m.opt.Greeting != "" { // before whatever is typed meanwhile
				m.printNote(m.opt.Greeting)
				m.opt.Greeting = ""
			}
			return m.tick(firstFrame, func(time.Time) tea.Msg { return drawn{} })
		}
	case drawn:
		if !m.ready {
			m.ready = true
			news := tea.Batch(m.followWaiting(), m.followReminders(), m.followMemory())
			if m.opt.Conversation != "" {
				return tea.Batch(m.open(m.opt.Conversation), news)
			}
			return news
		}
	case tea.ColorProfileMsg:
		m.profile = msg.Profile
		m.restyle()
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
		m.restyle()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg.Content)
	case printed:
		m.printing = false
	case ticked:
		m.spinning = false
		m.spin++
	case sent:
		return m.accepted(msg)
	case watched:
		return m.show(msg)
	case rewatch:
		if msg.watch == m.watch {
			return m.follow(m.cursor)
		}
	case continuation:
		return msg()
	case waitingMsg:
		return m.handleWaiting(msg)
	case remindedMsg:
		return m.reminded(msg)
	case answeredMsg:
		return m.rested(msg)
	default:
		var cmd tea.Cmd
		m.input, cmd = m.input.Update(msg)
		return cmd
	}
	return nil
}

// noteCmd prints a note, in a form that elsewhere accepts as its last step.
func (m *liveScreen) noteCmd(text string) tea.Cmd {
	m.printNote(text)
	return nil
}

// printNote prints a note.
func (m *liveScreen) printNote(text string) {
	m.turn.print(kindSaid, m.turn.dim.Render(m.turn.paint.wrap(safe(text))))
}

// fail prints an error.
func (m *liveScreen) fail(err error) { m.turn.print(kindError, m.turn.fault(err)) }

// part is a third of the screen. At most this much is printed at once, and the live
// part takes at most the rest. Nothing live is pushed into the scrollback, where it
// could not be redrawn.
func (m *liveScreen) part() int { return max(1, m.height/3) }

// flush prints what is queued, one part after the other.
func (m *liveScreen) flush() tea.Cmd {
	if m.printing || !m.ready {
		return nil
	}
	if len(m.turn.out) == 0 {
		if m.leaving {
			return tea.Quit
		}
		return nil
	}
	n := min(len(m.turn.out), m.part())
	text := strings.Join(m.turn.out[:n], "\n")
	m.turn.out = m.turn.out[n:]
	m.printing = true
	if text == "" {
		text = " " // an empty text would print nothing
	}
	return tea.Sequence(tea.Println(m.coloured(text)), func() tea.Msg { return printed{} })
}

// coloured reduces styles to what the terminal can show.
func (m *liveScreen) coloured(text string) string {
	var b bytes.Buffer
	w := colorprofile.Writer{Forward: &b, Profile: m.profile}
	if _, err := w.WriteString(text); err != nil {
		return stripped(text)
	}
	return b.String()
}

// animate keeps the clocks going while something runs.
func (m *liveScreen) animate() tea.Cmd {
	every := 120 * time.Millisecond
	busy := m.busy() || m.pend.working()
	if !busy {
		every = time.Second
	}
	if m.spinning || !busy && len(m.turn.tasks) == 0 {
		return nil
	}
	m.spinning = true
	return m.tick(every, func(time.Time) tea.Msg { return ticked{} })
}

func (m *liveScreen) busy() bool { return m.turn.running || m.sending != "" }

// next returns the message with a text.
func (m *liveScreen) next(text string) client.Message {
	return client.Message{Conversation: m.conv, ID: id.New().String(), Model: m.model, Agent: m.agent, Content: Words(plainText(text))}
}

// Words returns content that is a text.
func Words(text string) []client.Block { return []client.Block{{Type: "text", Text: text}} }

// send sends a text, or queues it behind the one that is being sent.
func (m *liveScreen) send(text string) tea.Cmd {
	switch {
	case m.sending != "" || len(m.outbox) > 0:
		m.outbox = append(m.outbox, text)
		return nil
	case m.editing != nil:
		return m.replace(text)
	}
	return m.dispatch(m.next(text), text, nil)
}

func (m *liveScreen) dispatch(t client.Message, text string, editing *message.Message) tea.Cmd {
	m.sending = text
	return func() tea.Msg {
		files, err := mentioned(typedText(text), m.opt.Private)
		if err != nil {
			return sent{text: text, editing: editing, err: err}
		}
		t.Content = append(t.Content, files...)
		acc, err := m.opt.Client.Say(m.ctx, t)
		return sent{acc, text, editing, err}
	}
}

func (m *liveScreen) accepted(s sent) tea.Cmd {
	unseen := m.sending != "" && s.Message != "" && !s.Duplicate // its first frame has not arrived yet
	m.sending = ""
	if s.err != nil {
		m.fail(s.err)
		if m.input.Value() == "" {
			m.setInput(s.text) // so that nothing is lost
			m.editing = s.editing
		} else if s.text != "" {
			m.printNote("not sent: " + plainText(s.text))
		}
		for _, text := range m.outbox { // they were meant to follow it
			m.past.keep(text)
			m.printNote("not sent: " + plainText(text))
		}
		m.outbox = nil
		return nil
	}
	if note := HiddenNote(s.Hidden); note != "" {
		m.printNote(note)
	}
	var cmd tea.Cmd
	if m.conv != s.Conversation {
		m.conv = s.Conversation
		cmd = m.follow("")
	}
	if unseen {
		m.turn.start()
	}
	if len(m.outbox) > 0 {
		text := m.outbox[0]
		m.outbox = m.outbox[1:]
		return tea.Batch(cmd, m.dispatch(m.next(text), text, nil))
	}
	return cmd
}

// follow starts to watch the open conversation.
func (m *liveScreen) follow(from string) tea.Cmd {
	m.unwatch()
	m.turn.stop()
	m.watch++
	ctx, cancel := context.WithCancel(m.ctx)
	m.unwatch, m.cursor = cancel, from
	out := make(chan watched, 256)
	m.frames = out
	n, conv := m.watch, m.conv
	m.watchers.Go(func() {
		defer close(out)
		for f, err := range m.opt.Client.Watch(ctx, conv, from) {
			w := watched{watch: n, err: err}
			if err == nil {
				w.frames = []client.Frame{f}
			}
			select {
			case out <- w:
			case <-ctx.Done():
				return
			}
		}
	})
	return receive(n, out)
}

// receive waits for the next frames and takes all that are there. It returns
// no message at the end of the watch.
func receive(n int, in chan watched) tea.Cmd {
	return func() tea.Msg {
		w, ok := <-in
		if !ok {
			return nil
		}
		all := watched{watch: n}
		for ok {
			all.frames = append(all.frames, w.frames...)
			if all.err = w.err; w.err != nil || len(all.frames) >= 256 {
				break
			}
			select {
			case w, ok = <-in:
			default:
				ok = false
			}
		}
		return all
	}
}

func (m *liveScreen) show(w watched) tea.Cmd {
	if w.watch != m.watch {
		return nil
	}
	var done tea.Cmd
	for _, f := range w.frames {
		m.cursor = f.Cursor
		rested := !m.turn.running
		m.turn.frame(f)
		if f.Interaction != "" && f.Interaction == m.turn.alarms.turn {
			continue // it is not an answer to anything
		}
		over := f.Type == client.FrameComplete || f.Type == client.FrameError
		if f.Type == client.FrameUser || rested && (m.turn.running || over) {
			m.sending = "" // these frames came before the report that it was accepted
		}
		if f.Type == client.FrameComplete {
			done = m.count()
		}
	}
	if w.err == nil {
		return tea.Batch(receive(m.watch, m.frames), done)
	}
	m.turn.stop()
	m.fail(w.err)
	if fault.Is(w.err, fault.NotFound) {
		return nil
	}
	n := m.watch
	return m.tick(time.Second, func(time.Time) tea.Msg { return rewatch{n} })
}

// Package channeltest is the one test suite that every adapter of package channel passes.
//
// An adapter's tests bring a double of its service: a server that behaves as the service's documentation
// says, with the means to make it fail. Run drives the adapter against the double and compares what it
// reports with what people see in the service. The double speaks the wire of the service; it must not
// share code with the adapter, or both would be wrong in the same way.
//
// Each test gets a double of its own and fails if a goroutine is left when it ends.
package channeltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/channel"
)

// Service is a double of a service with one account. Its methods may be called concurrently.
type Service interface {
	// Channel returns a new adapter of the account, as after a restart of Steward. Its folder (Options.Dir)
	// is the same each time.
	Channel() channel.Channel
	// Traits are constant.
	Traits() Traits

	// Say has a person write, and returns the service's ID of the message.
	Say(m Message) string
	// Change has the writer of a message change its text.
	Change(chat, message, text string)
	// Press has a person press a button of a message that the account has posted.
	Press(from, chat, message, data string)
	// Posted returns what people see of the account in a chat, in order, with edits applied.
	Posted(chat string) []Post
	// Typing returns how often the account has shown in a chat that it is writing.
	Typing(chat string) int
	// Shown returns what people see of a text that is posted, or why the service would refuse it: it is
	// too long, or its markup is invalid.
	Shown(text string) (Shown, error)

	// Drop cuts all connections.
	Drop()
	// Offline makes the service unreachable (no connection can be made) until it is called with false.
	Offline(bool)
	// LimitNext makes the service ask for a pause instead of posting or editing the next n messages.
	LimitNext(n int, pause time.Duration)
	// SwallowNext makes the service post the next n messages, but break the connection before it answers.
	SwallowNext(n int)
	// RefuseNext makes the service refuse the next n messages for good.
	RefuseNext(n int)
	// Redeliver makes the service deliver again what it has delivered, acknowledged or not.
	Redeliver()
	// Hostile delivers everything bad that can arrive on the service's wire: updates that are huge,
	// malformed or of unknown types, and answers that are no answers. It returns before they have arrived.
	Hostile()
	// Revoke makes the account's token invalid.
	Revoke()
}

// Addresses is implemented by a double whose chats have IDs of a form of their own. Tests name chats by
// numbers, as they name people; a group's number is negative.
type Addresses interface {
	Address(chat string) string
}

// Stalls is implemented by a double that can post the next n messages without ever answering.
type Stalls interface {
	StallNext(n int)
}

// Traits say what a service cannot do, so that its zero value demands everything. What channel.Limits
// tells (edits, buttons, attachments) is not repeated here.
type Traits struct {
	NoGroups  bool
	NoThreads bool
	NoReplies bool // the service cannot say which message a message answers
	NoTyping  bool
	NoChange  bool // people cannot change what they have written
	// Forgets says that an adapter which starts anew cannot learn what it has missed.
	Forgets bool
	// Unordered says that the service does not promise an order.
	Unordered bool
}

// Message is something that a person writes.
type Message struct {
	From, Chat string
	Thread     string
	Group      bool
	// Mention says that the account's name stands before Text, in the service's own form.
	Mention bool
	ReplyTo string
	Text    string
	Files   []File
}

// File is an attachment.
type File struct {
	Name, MediaType string
	Voice           bool
	Data            []byte
}

// Post is a message that the account has posted.
type Post struct {
	ID, Thread, ReplyTo string
	Text                string // as people see it
	Buttons             []channel.Button
	Files               []File
}

// Shown is what people see of a text.
type Shown struct {
	Text string   // without markup
	Code []string // the contents of its code blocks, which are part of Text too
}

// Run runs the suite. It makes a double for each test, which must end with the test (t.Cleanup).
func Run(t *testing.T, double func(t *testing.T) Service) {
	for name, test := range map[string]func(*testing.T, *world){
		"Check":                  testCheck,
		"Order":                  testOrder,
		"Acknowledge":            testAcknowledge,
		"AcknowledgeAcrossStart": testAcknowledgeAcrossStart,
		"AcknowledgePress":       testAcknowledgePress,
		"Duplicates":             testDuplicates,
		"LostConnections":        testLostConnections,
		"Stop":                   testStop,
		"Revoked":                testRevoked,
		"Offline":                testOffline,
		"Change":                 testChange,
		"Groups":                 testGroups,
		"Threads":                testThreads,
		"Send":                   testSend,
		"Edit":                   testEdit,
		"Buttons":                testButtons,
		"Typing":                 testTyping,
		"Limited":                testLimited,
		"Rejected":               testRejected,
		"Uncertain":              testUncertain,
		"Unreachable":            testUnreachable,
		"Stalled":                testStalled,
		"AttachmentsIn":          testAttachmentsIn,
		"AttachmentsOut":         testAttachmentsOut,
		"RenderPlain":            testRenderPlain,
		"RenderAnything":         testRenderAnything,
		"RenderCode":             testRenderCode,
		"RenderLong":             testRenderLong,
		"Hostile":                testHostile,
		"Storm":                  testStorm,
	} {
		t.Run(name, func(t *testing.T) {
			watchGoroutines(t)
			test(t, newWorld(t, double(t)))
		})
	}
}

// Moves checks that an adapter on another machine goes on where the first one has stopped. The double gives its
// adapters a state that they share (StateOf), and no folder.
func Moves(t *testing.T, double func(t *testing.T) Service) {
	watchGoroutines(t)
	testAcknowledgeAcrossStart(t, newWorld(t, double(t)))
}

// StateOf returns a state in memory that begins with the file of a folder of an adapter, if there is one. It also
// returns a folder that does not exist, which other machines have, and which must stay so.
func StateOf(t *testing.T, dir string) (none string, shared channel.State) {
	s := &state{}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err == nil && len(files) > 0 {
		s.data, err = os.ReadFile(files[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	none = filepath.Join(t.TempDir(), "none")
	t.Cleanup(func() {
		if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the adapter has written into its folder: %v", err)
		}
	})
	return none, s
}

type state struct {
	mu   sync.Mutex
	data []byte
}

// Load implements channel.State.
func (s *state) Load() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.data), nil
}

// Save implements channel.State.
func (s *state) Save(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = slices.Clone(data)
	return nil
}

// Receive runs an adapter, again whenever it loses its connection, until it has received n updates, and
// returns them.
func Receive(t testing.TB, c channel.Channel, n int) []channel.Update {
	t.Helper()
	list := receive(t, c, func(list []channel.Update) bool { return len(list) >= n })
	if len(list) != n {
		t.Fatalf("%d updates, not %d: %+v", len(list), n, list)
	}
	return list
}

// ReceiveTo runs an adapter as Receive does, until it has received a text.
func ReceiveTo(t testing.TB, c channel.Channel, last string) []channel.Update {
	t.Helper()
	list := receive(t, c, func(list []channel.Update) bool { return list[len(list)-1].Text == last })
	if len(list) == 0 || list[len(list)-1].Text != last {
		t.Fatalf("%q has not arrived: %+v", last, list)
	}
	return list
}

func receive(t testing.TB, c channel.Channel, enough func([]channel.Update) bool) (list []channel.Update) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		err := c.Run(ctx, func() {}, func(_ context.Context, got []channel.Update) error {
			if list = append(list, got...); enough(list) {
				cancel()
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Logf("Run: %v", err)
		}
	}
	return list
}

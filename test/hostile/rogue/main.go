// Command rogue is a tool that does to its caller whatever a hostile or broken
// tool may do. It speaks MCP or Steward's envelope.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Usage: rogue mcp|envelope NAME, or rogue sleep NAME. The file named by
// ROGUE_SWITCH, if set, contains the mode in which it starts.
func main() {
	if os.Args[1] == "sleep" {
		time.Sleep(time.Hour)
		return
	}
	mode := ""
	if file := os.Getenv("ROGUE_SWITCH"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		mode = strings.TrimSpace(string(b))
	}
	switch mode {
	case "hang_start":
		forever()
	case "exit":
		fmt.Fprintln(os.Stderr, "I do not feel like it")
		os.Exit(7)
	}
	r := &rogue{mode: mode, in: bufio.NewReaderSize(os.Stdin, 64<<10), out: bufio.NewWriterSize(os.Stdout, 64<<10), mcp: os.Args[1] == "mcp"}
	for {
		line, err := r.in.ReadBytes('\n')
		if err != nil {
			return
		}
		if r.mcp {
			r.protocol(line)
		} else {
			r.request(line)
		}
	}
}

type rogue struct {
	mode    string
	mcp     bool
	in      *bufio.Reader
	out     *bufio.Writer
	calls   int
	waiting []string // ids of the calls whose answers are to be swapped
}

func (r *rogue) say(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
	r.out.Flush()
}

// protocol answers an MCP message.
func (r *rogue) protocol(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments struct{ Do string } `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || m.Method == "" {
		return
	}
	id := string(m.ID)
	switch m.Method {
	case "initialize":
		r.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"rogue","version":"1"}}}`, id)
		if r.mode == "restart" {
			note(os.Getenv("ROGUE_SWITCH") + ".log")
			os.Exit(0)
		}
	case "tools/list":
		if r.mode == "hang_list" {
			forever()
		}
		r.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, r.tools())
	case "tools/call":
		r.behave(id, m.Params.Arguments.Do)
	case "ping":
		r.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	default:
		if id != "" {
			r.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		}
	}
}

// tools returns the mode itself if it is a list of tools, a hundred tools in
// mode "hundred", and otherwise one tool that does what its argument says.
func (r *rogue) tools() string {
	if strings.HasPrefix(r.mode, "{") {
		return r.mode
	}
	if r.mode == "hundred" {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `,{"name":"tool_%d","description":"Does thing number %d to a text.","annotations":{"readOnlyHint":true},`+
				`"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"the text"},"times":{"type":"integer","minimum":1}},"required":["text"]}}`, i, i)
		}
		return `{"tools":[` + b.String()[1:] + "]}"
	}
	return `{"tools":[{"name":"do","description":"Does what do says.","inputSchema":{"type":"object","properties":{"do":{"type":"string"}}},"annotations":{"readOnlyHint":true}}]}`
}

// request answers a request in an envelope.
func (r *rogue) request(line []byte) {
	var m struct {
		ID         string              `json:"request_id"`
		Parameters struct{ Do string } `json:"parameters"`
	}
	if json.Unmarshal(line, &m) == nil {
		r.behave(fmt.Sprintf("%q", m.ID), m.Parameters.Do)
	}
}

// answer formats a result as a line.
func (r *rogue) answer(id, text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		os.Exit(1)
	}
	if r.mcp {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, b)
	}
	return fmt.Sprintf(`{"type":"result","request_id":%s,"status":"success","data":%s}`, id, b)
}

func forever() { time.Sleep(time.Hour) }

// note appends a line to a file.
func note(file string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("started\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// rename renames this thread, so that other processes can see how far it is.
func rename(name string) {
	b, err := unix.BytePtrFromString(name)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// behave does what a call says.
func (r *rogue) behave(id, do string) {
	r.calls++
	good := r.answer(id, "worked")
	switch do {
	case "die":
		os.Exit(1)
	case "hang", "deaf":
		rename("in a call")
		forever()
	case "flood":
		flood(os.Stdout, "this is no message at all, and there is a lot of it\n", 1<<30)
	case "flood_line":
		flood(os.Stdout, strings.Repeat("x", 64<<10), 1<<30)
	case "flood_stderr":
		flood(os.Stderr, "complaints, and more complaints, and more of them\n", patiently)
	case "flood_talk":
		if r.mcp {
			flood(os.Stdout, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+strings.Repeat("x", 4000)+`"}}`+"\n", patiently)
		} else {
			flood(os.Stdout, `{"type":"status","request_id":`+id+`,"status":"running","message":"`+strings.Repeat("x", 4000)+`"}`+"\n", patiently)
		}
	case "forks":
		forks()
	case "forks_hang":
		forks()
		forever()
	case "forks_die":
		forks()
		os.Exit(1)
	case "wrong_id":
		r.say("%s", r.answer(`"4711"`, "for nobody"))
		r.say("%s", r.answer(`4711`, "for nobody"))
		r.say("%s", r.answer(`null`, "for nobody"))
		return
	case "half":
		fmt.Fprint(r.out, good[:len(good)/2])
		r.out.Flush()
		os.Stdout.Close()
		forever()
	case "half_line":
		r.say("%s", good[:len(good)/2])
		return
	case "twice":
		r.say("%s", r.answer(id, "first"))
		r.say("%s", r.answer(id, "second"))
		return
	case "swap": // each of two calls gets the other's answer
		if r.waiting = append(r.waiting, id); len(r.waiting) == 2 {
			for i, other := range []int{1, 0} {
				r.say("%s", r.answer(r.waiting[other], fmt.Sprintf("answer %d", i)))
			}
		}
		return
	case "close":
		os.Stdout.Close()
		forever()
	case "long":
		r.say("%s", r.answer(id, strings.Repeat("y", 100<<20)))
		return
	}
	r.say("%s", good)
}

// patiently is the number of bytes to write where somebody may read them all:
// four times the rise in memory that Steward may have. It is no larger because
// slow machines have to read them, too.
const patiently = 256 << 20

// flood writes at least the given number of bytes, repeating piece.
func flood(f *os.File, piece string, bytes int) {
	block := []byte(strings.Repeat(piece, 1+(64<<10)/len(piece)))
	for n := bytes; n > 0; n -= len(block) {
		if _, err := f.Write(block); err != nil {
			os.Exit(1)
		}
	}
}

// forks leaves children behind that try to outlive everything: in their own
// sessions, with parents that have ended, with an empty environment and no
// shared files.
func forks() {
	self, err := os.Executable()
	if err != nil {
		os.Exit(1)
	}
	name := os.Args[2]
	run := func(session bool, files, env bool, program string, args ...string) {
		c := exec.Command(program, args...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
		c.Env = []string{}
		if env {
			c.Env = nil
		}
		if files {
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		}
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if program == "/bin/sh" {
			c.Wait() // makes its child an orphan
		}
	}
	run(false, true, true, self, "sleep", name)
	run(true, true, true, self, "sleep", name)
	run(true, false, false, self, "sleep", name)
	run(false, false, true, "/bin/sh", "-c", `"$0" sleep "$1" &`, self, name)
	run(true, false, false, "/bin/sh", "-c", `"$0" sleep "$1" & exit 0`, self, name)
	run(true, false, false, "/bin/sh", "-c", `(trap '' TERM HUP INT; "$0" sleep "$1" </dev/null >/dev/null 2>&1 &) & exit 0`, self, name)
}

package ollama

import (
	"net/http"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/server/auth"
	"steward/internal/turn/relay"
)

// ndjson is the type of a stream: an object on each line.
const ndjson = "application/x-ndjson"

// stream sends an answer in pieces. An error before the first piece has an HTTP status of its own; a later one is the
// last line, {"error": "…"}.
func (s *server) stream(w http.ResponseWriter, r *http.Request, from relay.Events, a *answer) error {
	p := &pieces{w: w, rc: http.NewResponseController(w), answer: a}
	err := p.run(from)
	if err == nil || r.Context().Err() != nil || p.gone != nil {
		return nil // sent, or the client has gone
	}
	if !p.started {
		return err
	}
	auth.Log(r, s.Logger, err)
	p.write(errorBody(auth.Public(err)))
	return nil
}

// pieces sends the lines of one answer.
type pieces struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	answer  *answer
	text    bool  // some of the text was sent
	thought bool  // some of the thoughts were sent
	started bool  // the header and at least one line were sent
	gone    error // the client has stopped reading
}

// run passes each event on until the last. Tool calls come at the end, because their arguments are objects.
func (p *pieces) run(from relay.Events) error {
	for ev, err := range from {
		if err != nil {
			return err
		}
		p.answer.note(ev)
		switch ev.Kind {
		case llm.TextDelta:
			p.add(ev.Text, "")
		case llm.ReasoningDelta:
			p.add("", ev.Text)
		case llm.Reset:
			if p.started { // what was sent cannot be retracted
				return relay.Broken()
			}
		case llm.Done:
			p.finish(ev.Reply)
			return p.gone
		}
		if p.gone != nil {
			return p.gone
		}
	}
	return relay.Broken()
}

// add sends a piece of the text or of the thoughts.
func (p *pieces) add(text, thinking string) {
	if text == "" && (thinking == "" || p.answer.quiet) {
		return
	}
	p.text, p.thought = p.text || text != "", p.thought || thinking != ""
	p.write(line(p.answer.piece(text, thinking, nil)))
}

// finish sends what was not streamed, the tool calls and the end.
func (p *pieces) finish(r *llm.Reply) {
	text, thinking := relay.TextOf(r.Blocks)
	if !p.thought && strings.TrimSpace(thinking) != "" {
		p.add("", thinking)
	}
	if !p.text {
		p.add(text, "")
	}
	if calls := p.answer.calls(r); len(calls) > 0 {
		p.write(line(p.answer.piece("", "", calls)))
	}
	p.write(p.answer.end(p.answer.piece("", "", nil), r))
}

// write sends a line at once.
func (p *pieces) write(b []byte) {
	if p.gone != nil {
		return
	}
	if !p.started {
		p.started = true
		p.w.Header().Set("Content-Type", ndjson)
		p.w.Header().Set("Cache-Control", "no-store")
		p.w.WriteHeader(http.StatusOK)
	}
	_, err := p.w.Write(b)
	if err == nil {
		err = p.rc.Flush()
	}
	if err != nil {
		p.gone = fault.New(fault.Cancelled, "client_gone", "the client stopped reading: %w", err)
	}
}

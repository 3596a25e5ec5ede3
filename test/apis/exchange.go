package apis

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"strconv"
	"strings"
)

// Exchange is one recorded or handwritten answer.
type Exchange struct {
	Source string
	Status int
	Header http.Header
	Body   []byte
}

// Load reads an exchange from a file.
func Load(file string) (*Exchange, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(bytes.NewReader(raw))
	status, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(status)
	if len(fields) < 2 || fields[0] != "HTTP/1.1" {
		return nil, errors.New(file + ": does not begin with an HTTP/1.1 status line")
	}
	e := &Exchange{}
	if e.Status, err = strconv.Atoi(fields[1]); err != nil {
		return nil, err
	}
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	e.Header = http.Header(header)
	e.Source = e.Header.Get("X-Source")
	e.Header.Del("X-Source")
	if e.Source == "" {
		return nil, errors.New(file + ": has no X-Source header that says where it comes from")
	}
	e.Body, err = io.ReadAll(r)
	return e, err
}

// ServeHTTP implements http.Handler. Every request gets the same answer.
func (e *Exchange) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	maps.Copy(w.Header(), e.Header)
	w.WriteHeader(e.Status)
	w.Write(e.Body)
}

// Raw returns the exchange as bytes of HTTP/1.1. Its body is chunked or ends
// when the connection closes.
func (e *Exchange) Raw(chunked bool) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status) + "\r\n")
	h := e.Header.Clone()
	if chunked {
		h.Set("Transfer-Encoding", "chunked")
	} else {
		h.Set("Connection", "close")
	}
	h.Write(&b)
	b.WriteString("\r\n")
	if !chunked {
		b.Write(e.Body)
		return b.Bytes()
	}
	for line := range bytes.Lines(e.Body) {
		b.WriteString(strconv.FormatInt(int64(len(line)), 16) + "\r\n")
		b.Write(line)
		b.WriteString("\r\n")
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

package llm

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Llama, Gemma and others write calls as Python does: [files.read(path="a", lines=2), now()].

var (
	pythonName   = regexp.MustCompile(`^([A-Za-z_][\w.-]*?)(?:\.call)?\(\s*`)
	pythonKey    = regexp.MustCompile(`^([A-Za-z_]\w*)\s*=\s*`)
	pythonNumber = regexp.MustCompile(`^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?`)
)

// maxPythonDepth bounds how deep the values of a call in Python are nested.
const maxPythonDepth = 32

// pythonList reads calls in brackets.
func (s *textCallParser) pythonList() bool {
	s.text = strings.TrimLeft(s.text[1:], " \t\r\n")
	for s.pythonic() {
		s.text = strings.TrimLeft(s.text, " \t\r\n")
		if rest, ok := strings.CutPrefix(s.text, "]"); ok {
			s.text = rest
			return true
		}
		rest, ok := strings.CutPrefix(s.text, ",")
		if !ok || len(s.list) > maxTextCalls {
			return false
		}
		s.text = strings.TrimLeft(rest, " \t\r\n")
	}
	return false
}

// pythonic reads one call, which may stand in a print.
func (s *textCallParser) pythonic() bool {
	found := pythonName.FindStringSubmatch(s.text)
	if found == nil {
		return false
	}
	s.text = s.text[len(found[0]):]
	if found[1] == "print" && s.spec("print") == nil {
		return !strings.HasPrefix(s.text, "print") && s.pythonic() && s.skip(")")
	}
	var args []byte
	for !s.skip(")") {
		if args != nil && !s.skip(",") {
			return false
		}
		key := pythonKey.FindStringSubmatch(s.text)
		if key == nil {
			return false
		}
		s.text = s.text[len(key[0]):]
		value, ok := s.pythonValue(0)
		if !ok {
			return false
		}
		args = pair(args, []byte(`"`+key[1]+`"`), value)
	}
	return s.call(found[1], object(args))
}

// skip reads a token with the white space around it, if it comes next.
func (s *textCallParser) skip(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(s.text, " \t\r\n"), token)
	if ok {
		s.text = strings.TrimLeft(rest, " \t\r\n")
	}
	return ok
}

// pair adds a member, whose key is JSON, to an object that is not closed yet.
func pair(object, key, value []byte) []byte {
	if object = append(object, ','); len(object) == 1 {
		object[0] = '{'
	}
	return slices.Concat(object, key, []byte(":"), value)
}

func object(members []byte) []byte {
	if members == nil {
		return []byte("{}")
	}
	return append(members, '}')
}

// pythonValue reads a value and returns it as JSON.
func (s *textCallParser) pythonValue(depth int) ([]byte, bool) {
	if depth > maxPythonDepth || s.text == "" {
		return nil, false
	}
	for word, value := range map[string]string{"True": "true", "true": "true", "False": "false", "false": "false", "None": "null", "null": "null"} {
		if rest, ok := strings.CutPrefix(s.text, word); ok {
			s.text = rest
			return []byte(value), true
		}
	}
	switch s.text[0] {
	case '"', '\'':
		text, ok := s.pythonText()
		if !ok {
			return nil, false
		}
		quoted, err := json.Marshal(text)
		return quoted, err == nil
	case '[':
		s.text = s.text[1:]
		list := []byte("[")
		for !s.skip("]") {
			if len(list) > 1 {
				if !s.skip(",") {
					return nil, false
				}
				list = append(list, ',')
			}
			value, ok := s.pythonValue(depth + 1)
			if !ok {
				return nil, false
			}
			list = append(list, value...)
		}
		return append(list, ']'), true
	case '{':
		s.text = s.text[1:]
		var members []byte
		for !s.skip("}") {
			if members != nil && !s.skip(",") {
				return nil, false
			}
			key, ok := s.pythonText()
			if !ok || !s.skip(":") {
				return nil, false
			}
			value, ok := s.pythonValue(depth + 1)
			if !ok {
				return nil, false
			}
			quoted, err := json.Marshal(key)
			if err != nil {
				return nil, false
			}
			members = pair(members, quoted, value)
		}
		return object(members), true
	}
	number := pythonNumber.FindString(s.text)
	s.text = s.text[len(number):]
	return []byte(number), number != ""
}

// pythonText reads a text in quotation marks.
func (s *textCallParser) pythonText() (string, bool) {
	if s.text == "" || s.text[0] != '"' && s.text[0] != '\'' {
		return "", false
	}
	mark, rest := s.text[0], s.text[1:]
	var b strings.Builder
	for rest != "" && rest[0] != mark {
		if rest[0] == '\n' { // as models write it, although Python does not have it
			b.WriteByte('\n')
			rest = rest[1:]
			continue
		}
		if strings.HasPrefix(rest, `\/`) {
			rest = rest[1:]
		}
		other := mark
		if strings.HasPrefix(rest, `\"`) || strings.HasPrefix(rest, `\'`) {
			other = rest[1]
		}
		r, multibyte, tail, err := strconv.UnquoteChar(rest, other)
		if err != nil {
			return "", false
		}
		if r < 0x80 || multibyte {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		rest = tail
	}
	if rest == "" {
		return "", false
	}
	s.text = rest[1:]
	return strings.ToValidUTF8(b.String(), "\ufffd"), true
}

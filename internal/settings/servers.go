package settings

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// Server is a server of models that is known by name. All but the clouds speak OpenAI's protocol.
type Server struct {
	Name      string `json:"name"`
	Dialect   string `json:"dialect"` // empty: OpenAI's chat completions
	Title     string `json:"title"`
	BaseURL   string `json:"base_url"` // empty: each customer has another
	KeyEnv    string `json:"key_env"`
	URLEnv    string `json:"url_env"`  // the variable with a customer's address
	URLPath   string `json:"url_path"` // what follows that address
	KeyHeader string `json:"key_header"`
	Model     string `json:"model"` // its default model; empty: the newest one that it lists
	Fast      string `json:"fast"`
	Strong    string `json:"strong"`
	Embed     string `json:"embed"`
	Local     bool   `json:"local"` // it runs on the user's machine, where it is looked for
	Source    string `json:"source"`
	Date      string `json:"date"` // when the source was read
}

//go:embed servers.json
var serversFile []byte // read only

// Servers returns the servers that are known by name, from servers.json.
func Servers() []Server {
	var list []Server
	if err := json.Unmarshal(serversFile, &list); err != nil {
		panic(err) // a test reads it
	}
	return list
}

// ServerNamed returns a server that is known by name; the zero Server if there is none.
func ServerNamed(name string) Server {
	for _, s := range Servers() {
		if s.Name == name {
			return s
		}
	}
	return Server{}
}

// address returns the base URL of a customer whose address is in the environment.
func (s Server) address(text string) string {
	text = strings.TrimRight(text, "/")
	if strings.HasSuffix(text, s.URLPath) {
		return text
	}
	return text + s.URLPath
}

package main

import (
	"github.com/spf13/cobra"

	"steward/internal/server/httpauth"
)

func (a *app) tokenCommand() *cobra.Command {
	var anew bool
	c := &cobra.Command{
		Use: "token", Short: "Print your token for curl and other programs", GroupID: "keep",
		Long: "Print the token of this machine's own user. Steward asks every program for a credential, on this\n" +
			"machine too; its own commands and the chat read the token by themselves. Who has the token may do\n" +
			"everything that you may do. It is in the file token in the data folder, made at the first start\n" +
			"and kept. --new replaces it: the old token opens nothing from then on, and connections that it\n" +
			"had opened end. For other people make keys (steward keys create).",
		Example: "  TOKEN=$(steward token)\n  steward token --new",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.settings()
			if err != nil {
				return err
			}
			get := httpauth.MakeToken
			if anew {
				get = httpauth.NewToken
			}
			token, err := get(set.Data)
			return tell(a, map[string]string{"token": token}, err, func(map[string]string) string { return token + "\n" })
		},
	}
	c.Flags().BoolVar(&anew, "new", false, "replace it")
	return c
}

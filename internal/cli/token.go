package cli

import (
	"github.com/spf13/cobra"

	"steward/internal/server/auth"
)

func (a *program) tokenCommand() *cobra.Command {
	var anew bool
	c := &cobra.Command{
		Use: "token", Short: "Print your token for curl and other programs", GroupID: "keep",
		Long: "Print the token of this machine's own user. Steward asks every program for a credential, on this\n" +
			"machine too; its own commands and the chat read the token automatically. Anyone who has the token may\n" +
			"do everything that you may do. It is stored in the file token in the data folder, and created at the\n" +
			"first start. --new replaces it: the old token becomes invalid, and connections opened with it are\n" +
			"closed. For other people create keys (steward keys create).",
		Example: "  TOKEN=$(steward token)\n  steward token --new",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			get := auth.MakeToken
			if anew {
				get = auth.NewToken
			}
			token, err := get(set.Data)
			return tell(a, map[string]string{"token": token}, err, func(map[string]string) string { return token + "\n" })
		},
	}
	c.Flags().BoolVar(&anew, "new", false, "replace the token")
	return c
}

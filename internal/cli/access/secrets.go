package access

import (
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/command"
	"steward/internal/secret"
)

func (a *program) secretsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "secrets", Aliases: []string{"secret"}, Short: "Store passwords and keys", GroupID: "keep",
		Long: "Store passwords and keys, each in a file of the data folder that only you can read. Settings\n" +
			"refer to one as store:NAME; an agent gets those that it declares, by name. In everything that\n" +
			"Steward records, logs, shows or sends to a model, «secret:NAME» replaces them.",
	}, a.setSecret(), a.listSecrets(), a.removeSecret())
}

func (a *program) secrets() (*secret.Store, error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	return secret.NewStore(secret.Folder(set.Data)), nil
}

func (a *program) setSecret() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME", Short: "Store or change a secret", ValidArgsFunction: a.completeSecrets,
		Long: "Store or change a secret. You are prompted for it without echo, or it is read from standard input.\n" +
			"A running Steward masks it almost at once, and passes it to the programs that it starts from then on; for\n" +
			"model providers it takes effect when Steward restarts.",
		Example: "  steward secrets set SMTP_PASSWORD\n  pass show mail | steward secrets set SMTP_PASSWORD",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			value, err := a.ReadSecret(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := s.Set(args[0], value); err != nil {
				return err
			}
			a.Note("stored; settings refer to it as store:%s", args[0])
			return nil
		},
	}
}

func (a *program) listSecrets() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the names of the secrets",
		RunE: func(*cobra.Command, []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			list, err := s.List()
			return command.PrintList(a.Program, list, err, "there are no secrets", func(list []secret.Info) string {
				rows := [][]string{{"NAME", "CHANGED"}}
				for _, one := range list {
					rows = append(rows, []string{one.Name, one.Changed.Local().Format(time.DateTime)})
				}
				return command.Columns(rows, 0)
			})
		},
	}
}

func (a *program) removeSecret() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Aliases: []string{"rm"}, Short: "Delete secrets", ValidArgsFunction: a.completeSecrets,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.secrets()
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := s.Remove(name); err != nil {
					return err
				}
				a.Note("removed %s", name)
			}
			return nil
		},
	}
}

// completeSecrets offers the names of secrets.
func (a *program) completeSecrets(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := a.secrets()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := s.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

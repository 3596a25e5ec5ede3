// Package node has the commands that set up, run and check a Steward on this machine: setup, accounts, home,
// channels, pair, unpair, serve, worker, cluster, service, models, config, doctor and migrate.
//
// setup finds a model, asks for a folder and tries both; accounts adds a mailbox or connects an account at
// another service; home connects Home Assistant; channels adds a messenger, and pair says who writes there.
// Each of them tries what it was told before it stores
// anything: passwords and keys as secrets, the rest in the user's settings file, whose other lines stay as
// they were written. A running Steward reads the settings at its next start, and the command says so.
//
// serve opens a node and serves the chat and the APIs until it is stopped. The first signal suspends running
// turns, which resume at the next start; the second ends the process. With --wait it waits for a data folder
// that another process uses. worker is a node of a cluster without an address of its own, and cluster lists the
// nodes. service keeps serve running from login on, with the manager of the system, and
// waits until it really serves before it reports success.
//
// config shows each setting and where it comes from. models lists the models of the providers that were
// found, tests what they can do, and remembers the result. doctor checks everything that can be wrong and
// says what to do about it. It changes nothing. Its checks have time limits, so that a server that hangs does
// not keep the others from being checked.
package node

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/command"
)

// program is one run of the command line. The commands of this package are its methods.
type program struct {
	*command.Program
}

// Commands returns the commands of this package, for the run p.
func Commands(p *command.Program) []*cobra.Command {
	a := &program{Program: p}
	return []*cobra.Command{a.serveCommand(), a.workerCommand(), a.clusterCommand(), a.serviceCommand(), a.accountsCommand(), a.homeCommand(), a.channelsCommand(), a.pairCommand(), a.unpairCommand(), a.modelsCommand(), a.configCommand(), a.doctorCommand(), a.migrateCommand(), a.backupCommand(), a.restoreCommand(), a.upgradeCommand()}
}

# Models: what may be sent to whom.
#
# Where one is not allowed, the next model of the chain is asked.
package steward

allow contains "models may be asked" if input.point == "model"

# What has one of these labels goes to no model outside of this machine and its
# network. The labels are secret, private and untrusted. Add your own:
#
#   stays_local contains "private"
stays_local contains "secret"

deny contains sprintf("what is %s stays here, and %s/%s is a model in the cloud", [label, input.model.provider, input.model.name]) if {
	input.point == "model"
	not input.model.local
	some label in stays_local
	input.labels[label]
}

#!/bin/sh
set -e
getent group steward >/dev/null || groupadd --system steward
getent passwd steward >/dev/null || useradd --system --gid steward --home-dir /var/lib/steward --shell /usr/sbin/nologin steward
install -d -o steward -g steward -m 0700 /var/lib/steward
if [ -e /etc/steward/steward.yaml ]; then # dpkg does not bring back settings that were deleted
	chgrp steward /etc/steward/steward.yaml
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ "$1" = configure ] && [ -n "$2" ]; then # an upgrade
		systemctl try-restart steward.service
	fi
fi

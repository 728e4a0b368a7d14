#!/bin/bash
# As the official image: protected mode off (the network is private), the server as user redis.
set -e
[ "$1" = redis-server ] && set -- "$@" --protected-mode no
if [ "$(id -u)" = 0 ]; then
  chown -R redis /data
  exec setpriv --reuid redis --regid redis --init-groups -- "$@"
fi
exec "$@"

# One machine: host.sh start FOLDER NAME PORT | stop FOLDER NAME. FOLDER has `key.pub`, whose owner may log in; `stuck` lets it refuse to stop, and
# `hold` lets it wait.
set -eu
action=$1 folder=$2 at=$2/$3
case $action in
  start)
    mkdir -p "$at/remote"
    ssh-keygen -q -t ed25519 -N '' -f "$at/host"
    cp "$folder/key.pub" "$at/authorized"
    printf '%s\n' "Port $4" 'ListenAddress 127.0.0.1' "HostKey $at/host" "AuthorizedKeysFile $at/authorized" "PidFile $at/pid" 'UsePAM no' \
      'StrictModes no' 'PasswordAuthentication no' 'PermitRootLogin yes' >"$at/config"
    /usr/sbin/sshd -f "$at/config" -E "$at/log"
    ;;
  stop)
    [ ! -e "$folder/stuck" ] || { echo "the machine does not stop"; exit 1; }
    while [ -e "$folder/hold" ]; do sleep 0.1; done
    kill "$(cat "$at/pid")" || true
    rm -rf "$at"
    ;;
esac

# First contact: what the far shell runs, under the rules of boot.sh (one line inside single quotes). It writes nothing
# unless home asks for `root`. The nonce is its first argument, so that nothing is typed at whatever else may answer, and
# the marker is never whole in the command itself: a door that only repeats our words is not taken for a shell.
hello="LEASEHOLD-PROBE/1 $1"; echo "$hello hello";
while read -r word rest; do
  case "$word" in
  ping) echo "$hello ping $rest" ;;
  facts)
    echo "$hello shell ${SHELL:-unknown}"; echo "$hello system $(uname -s -m 2>/dev/null)"; P=;
    for c in python3 python /root/miniconda3/bin/python /opt/conda/bin/python "$HOME/miniconda3/bin/python"
      "$HOME/anaconda3/bin/python" /usr/local/bin/python3 /usr/bin/python3 pypy3; do
      q=$(command -v "$c" 2>/dev/null) || continue;
      if "$q" -I -S -c "import sys; sys.exit(sys.version_info < (3, 8))" >/dev/null 2>&1; then P=$q; break; fi;
    done;
    V=; if [ -n "$P" ]; then V=$("$P" -I -S -c "import platform; print(platform.python_version())" 2>/dev/null); fi;
    echo "$hello python $V $P" ;;
  sign)
    n=${rest%% *}; rest=${rest#* }; k=${rest%% *}; v=$(printf %b "${rest#* }"); s=unknown;
    case "$k" in
    env) if env | grep -q "^$v="; then s=yes; else grep -qz "^$v=" /proc/1/environ 2>/dev/null;
      case "$?" in 0) s=yes ;; 1) s=no ;; esac; fi ;;
    mount) grep -qF " $v " /proc/self/mounts 2>/dev/null; case "$?" in 0) s=yes ;; 1) s=no ;; esac ;;
    file) if [ -e "$v" ] || [ -h "$v" ]; then s=yes; elif [ -x "${v%/*}/" ]; then s=no; fi ;;
    esac;
    echo "$hello sign $n $s" ;;
  root)
    R=$(printf %b "$rest"; echo x); R=${R%x};
    case "$R" in "") R="$HOME/.leasehold" ;; "~/"*) R="$HOME/${R#??}" ;; esac;
    f="$R/.leasehold-probe-$1"; w="$1 $(printf %04000d 0)"; s=unmade;
    if mkdir -p "$R" 2>/dev/null; then s=unwritable; fi;
    if [ "$s" = unwritable ] && ( printf %s "$w" > "$f" ) 2>/dev/null; then s=unreadable; fi;
    if [ "$s" = unreadable ] && [ "$(cat "$f" 2>/dev/null)" = "$w" ]; then s=good; fi;
    rm -f "$f" 2>/dev/null; if [ -e "$f" ]; then s=undeletable; fi;
    echo "$hello root $s $R" ;;
  *) exit 0 ;;
  esac;
done

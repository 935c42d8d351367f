#!/bin/sh
# Installs Mnemosyne from this clone into the Python environment of hermes-agent, with the provider `pgvector`, and says what to do next.
#
#   scripts/install.sh [PYTHON]
#
# PYTHON is the interpreter that Hermes runs with; without it that of the `hermes` command, else python3. HERMES_HOME counts.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

interpreter() {
    command=$(command -v hermes 2>/dev/null) || { command -v python3; return; }
    first=$(head -n 1 "$command")
    case $first in
        '#!/'*python*) echo "${first#'#!'}" ;;
        *) command -v python3 ;;
    esac
}

python=${1:-$(interpreter)}
[ -x "$python" ] || { echo "install.sh: $python is no interpreter: name the one that Hermes runs with" >&2; exit 2; }

echo "installing into $("$python" -c 'import sys; print(sys.prefix)')"
if "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m pip install --upgrade "$here[postgres]" 'psycopg[binary]>=3.3.6'
elif command -v uv >/dev/null 2>&1; then
    uv pip install --python "$python" --upgrade "$here[postgres]" 'psycopg[binary]>=3.3.6'
else
    echo "install.sh: $python has no pip and there is no uv: install one of them" >&2
    exit 1
fi
"$python" -m hermes_mnemosyne.pgvector install

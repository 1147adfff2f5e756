#!/usr/bin/env bash
# Asks a person, and ends with the exit code of `handraise ask`: only 0 is a yes. See docs/how-to/gate-a-deployment.md.
set -euo pipefail

options=(--timeout "$ASK_TIMEOUT" --key "$ASK_KEY" --json)
if [ -n "$ASK_TOOL" ]; then options+=(--approval "$ASK_TOOL"); else options+=(--confirm); fi
while IFS= read -r line; do if [ -n "$line" ]; then options+=(--argument "$line"); fi; done <<<"$ASK_ARGUMENTS"
while IFS= read -r line; do if [ -n "$line" ]; then options+=(--to "$line"); fi; done <<<"$ASK_RECIPIENTS"
if [ -n "$ASK_EXPIRES" ]; then options+=(--expires "$ASK_EXPIRES"); fi

code=0
question=$(handraise ask "${options[@]}" -- "$ASK_PROMPT") || code=$?
case $code in
    0 | 8) status=answered ;;
    3) status=declined ;;
    4) status=expired ;;
    5) status=withdrawn ;;
    6) status=exhausted ;;
    7) status=pending ;;
    9) status=returned ;;
    *) status=failed ;;
esac
printf 'status=%s\nquestion=%s\n' "$status" "${question//$'\n'/ }" >>"$GITHUB_OUTPUT"
if [ "$code" = 7 ]; then echo "Nobody has answered within $ASK_TIMEOUT. Run this job again: it waits for the same question."; fi
exit "$code"
